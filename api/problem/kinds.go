package problem

// Kind is one type of problem.
type Kind struct {
	Code   string
	Status int
	Title  string
	// Meaning is what the page of the type says.
	Meaning string
}

// The kinds. Their codes are stable: programs decide by them.
var (
	InvalidDocument = Kind{"invalid_document", 400, "The document cannot be read",
		"The body is not JSON, is nested too deeply, or has fields that are unknown or given twice. Every problem is " +
			"listed in errors, with a JSON pointer to its place and the nearest right name. Unknown fields are " +
			"refused because a misspelt option that is silently dropped gives a wrong answer."}
	InvalidEntry = Kind{"invalid_entry", 422, "The entry has values that cannot be accepted",
		"The document is well formed, but values in it are missing, of the wrong type, out of range or in conflict, " +
			"or describe a model that cannot be replayed. Every problem is listed in errors, with a JSON pointer and " +
			"what is accepted."}
	InvalidObservation = Kind{"invalid_observation", 422, "The observation has values that cannot be accepted",
		"The document is well formed, but values in it are missing, of the wrong type, out of range or in conflict, " +
			"or its job cannot be estimated. Every problem is listed in errors, with a JSON pointer and " +
			"what is accepted."}
	InvalidCalibration = Kind{"invalid_calibration", 422, "The request about a calibration has values that " +
		"cannot be accepted",
		"The document is well formed, but values in it are missing, of the wrong type or in conflict. Every problem " +
			"is listed in errors, with a JSON pointer and what is accepted."}
	UnknownCalibration = Kind{"unknown_calibration", 422, "The calibration cannot be used",
		"The request names a calibration that there is not, or one that was fitted to another version of the " +
			"estimator. suggestions lists some that there are; the built-in constants are always there."}
	KeyReused = Kind{"idempotency_key_reused", 422, "The Idempotency-Key belongs to another request",
		"A request that is sent again with the same Idempotency-Key has to be the same request. Give each observation " +
			"a key of its own."}
	Unauthorized = Kind{"unauthorized", 401, "An API key is needed",
		"Changes need an API key: Authorization: Bearer KEY. Whoever runs the service makes keys with vramplan keys " +
			"create. A key that is unknown, revoked or expired is no key."}
	Forbidden = Kind{"forbidden", 403, "The API key may not do this",
		"Each key has scopes, which say what it may do. The detail names the scope that is needed."}
	Conflict = Kind{"conflict", 409, "What there is does not allow the change",
		"The change would take a name that means another entry, remove a built-in entry, or make the catalog larger " +
			"than it may be; or there are too few observations for a calibration, or it was fitted to another version " +
			"of the estimator."}
	PreconditionFailed = Kind{"precondition_failed", 412, "The entry is not what the client thought",
		"If-Match names another version of the entry than the present one, or If-None-Match: * was sent and there is " +
			"an entry. Somebody else changed it in between: read it again."}
	PreconditionRequired = Kind{"precondition_required", 428, "The change has to say what it is based on",
		"Two clients that change an entry at once must not undo each other's work unknowingly. Send If-Match with the " +
			"ETag of the entry as it was read, or If-None-Match: * to create a new one."}
	InvalidQuery = Kind{"invalid_query", 400, "The query has parameters that this resource does not take",
		"A parameter is unknown, given twice, or has a value that is not accepted. The detail lists what is accepted."}
	NotFound = Kind{"not_found", 404, "There is nothing here",
		"No resource has this path, or no entry of the catalog has this name. Where a name is close to known ones, " +
			"suggestions lists them."}
	MethodNotAllowed = Kind{"method_not_allowed", 405, "The resource does not take this method",
		"The Allow header lists the methods that it takes."}
	Timeout = Kind{"request_timeout", 408, "The request did not arrive in time",
		"The body came too slowly. Send it again."}
	TooLarge = Kind{"too_large", 413, "The body is too large",
		"A job document may have 1 MiB. A batch may be of any length, but each of its lines may have 1 MiB."}
	UnsupportedMediaType = Kind{"unsupported_media_type", 415, "The body's media type is not understood",
		"Job documents are sent as application/json, batches as application/x-ndjson, both in UTF-8 and " +
			"without compression."}
	InvalidJob = Kind{"invalid_job", 422, "The job has values that cannot be accepted",
		"The document is well formed, but values in it are missing, of the wrong type, out of range or in conflict, " +
			"name a GPU or model that the catalog does not have, or ask for something that is not modelled. Every " +
			"problem is listed in errors, with a JSON pointer and what is accepted. A job that does not fit a card is " +
			"not a problem: that is an answer."}
	RateLimited = Kind{"rate_limited", 429, "Too many requests",
		"This client sends more requests in a second than the service was set to take. Retry-After says when to go on."}
	Internal = Kind{"internal", 500, "The service failed",
		"A fault of the service, not of the request. Its log has the cause under the id in the X-Request-Id header."}
	Unavailable = Kind{"unavailable", 503, "The service cannot answer now",
		"Something that the service needs is not there, or it is shutting down. Retry-After says when to try again."}
	Overloaded = Kind{"overloaded", 503, "The service has too much to do",
		"As many jobs are being worked on and as many wait as the service was set to take, or as many bytes are in " +
			"memory for clients, or the answer took too long. Where clients compete, whoever asks most is sent away " +
			"first. Retry-After says when to try again."}
)

// Kinds lists all types of problem.
func Kinds() []Kind {
	return []Kind{InvalidDocument, InvalidQuery, NotFound, MethodNotAllowed, Timeout, TooLarge,
		UnsupportedMediaType, InvalidJob, InvalidEntry, InvalidObservation, InvalidCalibration, UnknownCalibration,
		KeyReused, Unauthorized, Forbidden, Conflict, PreconditionFailed, PreconditionRequired, RateLimited, Internal,
		Unavailable, Overloaded}
}
