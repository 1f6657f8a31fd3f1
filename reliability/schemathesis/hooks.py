"""What schemathesis has to be told about the API that its OpenAPI document cannot say."""

import json

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def ndjson(ctx, value):
    """A batch is text; a generated text that is no JSON is one of its bad lines."""
    if isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


@schemathesis.hook
def filter_case(ctx, case):
    """The API reads null as a field that is not there, as encoders of some languages
    write it. The document does not offer that to people, so a null counts as wrong
    for it and as right for the API."""
    return not holds_null(case.body)


def holds_null(value):
    if isinstance(value, dict):
        return any(holds_null(v) for v in value.values())
    if isinstance(value, list):
        return any(holds_null(v) for v in value)
    return value is None
