"""A form opens what the API server writes, and says so when it is not that."""

import msgspec
import pytest
from gpuyard.common.kube.forms import JSON, Form
from gpuyard.common.kube.protobuf import PROTOBUF

from tests.common.kube.wire import framed, status_of, wrapped

FORMS = [JSON, PROTOBUF]


def written(form: Form, line: bytes) -> bytes:
    """An event as it comes from the form's cutter."""
    (frame,) = form.cutter().feed(framed(line) if form is PROTOBUF else line + b"\n")
    return frame


@pytest.mark.parametrize("form", FORMS)
def test_the_object_of_an_event_is_as_it_came(form: Form) -> None:
    kind, unread = form.event(written(form, b'{"type":"ADDED","object":{"a":1}}'))
    assert (kind, bytes(unread)) == ("ADDED", wrapped(b'{"a":1}') if form is PROTOBUF else b'{"a":1}')


@pytest.mark.parametrize("form", FORMS)
def test_the_status_of_an_error_is_json(form: Form) -> None:
    told = {"code": 410, "reason": "Expired", "message": "<old>", "details": {"retryAfterSeconds": 3}}
    kind, unread = form.event(written(form, msgspec.json.encode({"type": "ERROR", "object": told})))
    assert (kind, msgspec.json.decode(unread)) == ("ERROR", told)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("line", [b"\x0aoops", b"\x0a\x05ERROR\x12\x05\x0a\x03abc", b"\x0a\x05ERROR", b"\x0a\x02\xff"])
def test_what_is_no_event_is_refused(form: Form, line: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        form.event(line)


@pytest.mark.parametrize("body", [b"<html>", b"", b"k8s\0\xff", wrapped(b"\xff")])
def test_a_refusal_that_is_no_status_stays_as_it_came(body: bytes) -> None:
    assert PROTOBUF.status(body) == JSON.status(body) == body


def test_a_refusal_is_a_status_as_in_json() -> None:
    told = b'{"message":"not for you","reason":"Forbidden","details":{"retryAfterSeconds":0},"code":403}'
    assert PROTOBUF.status(status_of(told)) == told.replace(b'"retryAfterSeconds":0', b"")
