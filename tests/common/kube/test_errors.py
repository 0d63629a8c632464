"""An error says which call, which object, why, and how long to wait."""

import pytest
from gpuyard.common.kube.errors import AccessError, ApiError, FencedError, KubeError, UnreachableError, api_error


def test_a_status_object_gives_reason_and_message() -> None:
    error = api_error("GET pods ns/p", 404, b'{"reason":"NotFound","message":"pods p not found","code":404}')
    assert str(error) == "GET pods ns/p: pods p not found (404 NotFound)"


def test_the_error_of_a_watch_carries_its_own_status() -> None:
    assert api_error("watch of pods", 0, b'{"reason":"Expired","message":"too old","code":410}').expired


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"\xff\xfe", b'{"message": 3}', b"{"])
def test_a_body_of_any_kind_becomes_an_error_with_the_status(body: bytes) -> None:
    assert api_error("GET pods", 500, body).status == 500


def test_a_long_page_of_a_proxy_is_cut() -> None:
    assert len(api_error("GET pods", 502, b"x" * 10_000).message) == 500


@pytest.mark.parametrize(
    ("body", "header", "seconds"),
    [
        (b'{"details":{"retryAfterSeconds":3}}', "", 3),
        (b"{}", "5", 5),
        (b'{"details":{"retryAfterSeconds":3}}', "5", 5),
        (b"{}", "Wed, 21 Oct 2026 07:28:00 GMT", 0),
    ],
)
def test_the_longer_patience_counts(body: bytes, header: str, seconds: float) -> None:
    assert api_error("GET pods", 429, body, header).retry_after == seconds


@pytest.mark.parametrize("kind", [AccessError, ApiError, FencedError, UnreachableError])
def test_one_name_catches_them_all(kind: type[Exception]) -> None:
    assert issubclass(kind, KubeError)
