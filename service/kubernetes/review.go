// Package kubernetes reads what an API server sends to an admission webhook, finds the training
// job and the GPUs in it, and writes the answer.
//
// It has its own few types instead of those of k8s.io/api, which would add more to the binary than
// everything else here; its tests hold them against those. Every doubt is resolved towards letting
// a workload in: it is refused only where a complete job document surely fits none of the
// GPUs on which it may start.
package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// APIVersion and Kind are those of the reviews that are understood.
const (
	APIVersion = "admission.k8s.io/v1"
	Kind       = "AdmissionReview"
)

// The annotations that users write.
const (
	// JobAnnotation holds the job document.
	JobAnnotation = "vramplan.dev/job"
	// OverrideAnnotation holds a reason to run a job that does not fit.
	OverrideAnnotation = "vramplan.dev/override"
)

// Review is an AdmissionReview as the API server sends it.
type Review struct {
	APIVersion string   `json:"apiVersion" example:"admission.k8s.io/v1"`
	Kind       string   `json:"kind" example:"AdmissionReview"`
	Request    *Request `json:"request"`
}

// Request asks whether an object may be written.
type Request struct {
	UID         string          `json:"uid"`
	Kind        GroupKind       `json:"kind"`
	SubResource string          `json:"subResource,omitempty"`
	Name        string          `json:"name,omitempty"`
	Namespace   string          `json:"namespace,omitempty"`
	Operation   string          `json:"operation" example:"CREATE"`
	UserInfo    UserInfo        `json:"userInfo"`
	Object      json.RawMessage `json:"object,omitempty" swaggertype:"object"`
	OldObject   json.RawMessage `json:"oldObject,omitempty" swaggertype:"object"`
	DryRun      *bool           `json:"dryRun,omitempty"`
}

// GroupKind names the type of an object.
type GroupKind struct {
	Group   string `json:"group" example:"batch"`
	Version string `json:"version" example:"v1"`
	Kind    string `json:"kind" example:"Job"`
}

// UserInfo is who writes the object.
type UserInfo struct {
	Username string `json:"username,omitempty"`
}

// Answer is the AdmissionReview that goes back.
type Answer struct {
	APIVersion string    `json:"apiVersion" example:"admission.k8s.io/v1"`
	Kind       string    `json:"kind" example:"AdmissionReview"`
	Response   *Response `json:"response"`
}

// Response says whether the object may be written.
type Response struct {
	UID     string `json:"uid"`
	Allowed bool   `json:"allowed"`
	// Status is why not.
	Status *Status `json:"status,omitempty"`
	// AuditAnnotations go into the API server's audit log.
	AuditAnnotations map[string]string `json:"auditAnnotations,omitempty"`
	// Warnings are shown to the user, of 120 characters at most each.
	Warnings []string `json:"warnings,omitempty"`
}

// Status is the reason of a refusal.
type Status struct {
	Status  string `json:"status" example:"Failure"`
	Message string `json:"message"`
	Reason  string `json:"reason" example:"Forbidden"`
	Code    int    `json:"code" example:"403"`
}

// Decode reads a review. The error says why it is none.
func Decode(body []byte) (*Request, error) {
	var r Review
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("not an AdmissionReview: %w", err)
	}
	switch {
	case r.Kind != Kind:
		return nil, fmt.Errorf("the review's kind is %.80q; accepted: %q", r.Kind, Kind)
	case r.APIVersion != APIVersion:
		return nil, fmt.Errorf("the review's apiVersion is %.80q; accepted: %q", r.APIVersion, APIVersion)
	case r.Request == nil:
		return nil, errors.New("the review has no request")
	case r.Request.UID == "":
		return nil, errors.New("the review's request has no uid")
	}
	return r.Request, nil
}

// IsDryRun says that nothing will be written, and so nothing may be recorded.
func (r *Request) IsDryRun() bool { return r.DryRun != nil && *r.DryRun }

// fromController says whether a controller sends the object, and not a user. Anybody may write an owner with
// controller: true into an object of theirs, so that what it says of itself is no proof; who sends it, the API server
// has authenticated. Controllers have names of the system, or are service accounts of another namespace, which the
// cluster's administrators let in; a namespace's own service accounts are what its users work with, and are judged
// (kubernetes.io, "Authenticating": system:serviceaccount:NAMESPACE:NAME; names with system: are reserved).
func (r *Request) fromController() bool {
	name, system := strings.CutPrefix(r.UserInfo.Username, "system:")
	if account, ok := strings.CutPrefix(name, "serviceaccount:"); ok && system {
		namespace, _, named := strings.Cut(account, ":")
		return named && namespace != r.Namespace
	}
	return system && name != "anonymous"
}

// Question is what a review asks of vramplan.
type Question struct {
	// Document is the job document, with the GPUs of the pods in it.
	Document []byte
	// Cards are the names of those GPUs; empty where the pods do not say it and the document does.
	Cards []string
	// GPUs is how many the workload asks for.
	GPUs int64
	// Override is the user's reason to run the job in any case.
	Override string
	// Workload is "kind namespace/name", for the record.
	Workload string
	// Single is true where the document describes one GPU.
	Single bool
}

// ErrUnclear is the part of an error that says that there is a job which cannot be judged.
var ErrUnclear = errors.New("not checked")

// Question finds the question in a review: nil where it asks nothing of vramplan, because
// the object has no job document, is not being written by a user, or has not changed in what matters. The error,
// which wraps [ErrUnclear], is for the user. variants lists the cards that a name may mean.
func (r *Request) Question(variants func(name string) ([]string, error)) (*Question, error) {
	if r.SubResource != "" || r.Operation != "CREATE" && r.Operation != "UPDATE" ||
		strings.HasPrefix(r.Namespace, "kube-") {
		return nil, nil
	}
	now, err := read(r.Kind, r.Object)
	if err != nil || now == nil || now.leaving || now.owned && r.fromController() {
		return nil, err
	}
	if r.Operation == "UPDATE" {
		if before, err := read(r.Kind, r.OldObject); err == nil && before != nil && before.equal(now) {
			return nil, nil
		}
	}
	q := &Question{Override: strings.TrimSpace(now.override), Workload: fmt.Sprintf("%s %s/%s", r.Kind.Kind,
		r.Namespace, now.name)}
	return q, q.fill(now, variants)
}

// workload is what matters of an object.
type workload struct {
	name     string
	document string
	override string
	// leaving: it is being deleted; owned: it says that a controller made it, whose own object was asked about.
	leaving, owned bool
	pods           []pod
	// indirect: the pods are described elsewhere, so their GPUs may not be.
	indirect bool
}

func (w *workload) equal(o *workload) bool {
	return w.document == o.document && w.override == o.override &&
		slices.EqualFunc(w.pods, o.pods, func(a, b pod) bool {
			return a.gpus == b.gpus && a.slice == b.slice && slices.Equal(a.cards, b.cards)
		})
}

// fill puts the workload's GPUs into its document.
func (q *Question) fill(w *workload, variants func(string) ([]string, error)) error {
	var document map[string]json.RawMessage
	if err := json.Unmarshal([]byte(w.document), &document); err != nil || document == nil {
		return unclear("annotation %s is not a JSON object", JobAnnotation)
	}
	told := true // every pod with GPUs says which
	for _, p := range w.pods {
		if p.gpus == 0 {
			continue
		}
		q.GPUs = min(q.GPUs+p.gpus*min(p.replicas, 1<<20), 1<<40)
		cards := p.cards
		if len(cards) == 0 {
			cards = declared(document["gpus"])
			told = told && p.slice != "" && len(cards) > 0
		}
		for _, card := range cards {
			names, err := variants(card)
			if err != nil {
				return fmt.Errorf("%w: %w", ErrUnclear, err)
			}
			for _, name := range names {
				q.Cards = append(q.Cards, sliceOf(name, p.slice))
			}
		}
	}
	switch {
	case q.GPUs == 0 && !w.indirect:
		return unclear("no container has a limit for nvidia.com/gpu")
	case !told || q.GPUs == 0:
		if len(document["gpus"]) == 0 {
			return unclear("neither a node selector nor the job says which GPU it gets")
		}
		q.Cards = nil
	}
	q.Single = !bytes.Contains(document["training"], []byte(`"distributed"`))
	q.Document = []byte(w.document)
	if len(q.Cards) > 0 {
		slices.Sort(q.Cards)
		q.Cards = slices.Compact(q.Cards)
		cards, err := json.Marshal(q.Cards)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnclear, err)
		}
		document["gpus"] = cards
		if q.Document, err = json.Marshal(document); err != nil {
			return fmt.Errorf("%w: %w", ErrUnclear, err)
		}
	}
	return nil
}

// declared are the cards that a document names in words.
func declared(gpus json.RawMessage) []string {
	var names []string
	if json.Unmarshal(gpus, &names) != nil {
		return nil
	}
	return names
}

func unclear(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrUnclear}, args...)...)
}
