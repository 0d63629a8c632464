"""What can go wrong between us and the API server, as values that say which object, why and what helps."""

from http import HTTPStatus

import msgspec


class KubeError(Exception):
    """Anything that keeps us from the cluster's answer."""


class AccessError(KubeError):
    """No usable way to the cluster: kubeconfig, certificates or token. The text names the file and the remedy."""


class UnreachableError(KubeError):
    """The API server did not answer: refused, cut, timed out, or its certificate is not trusted."""


class FencedError(KubeError):
    """The call was not sent: whoever makes it may not act at this moment."""


class ApiError(KubeError):
    """The API server answered, and said no."""

    def __init__(self, about: str, status: int, reason: str, message: str, retry_after: float = 0) -> None:
        super().__init__(f"{about}: {message} ({status} {reason})")
        self.about = about
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after

    @property
    def not_found(self) -> bool:
        """The object, or its kind, does not exist."""
        return self.status == HTTPStatus.NOT_FOUND

    @property
    def forbidden(self) -> bool:
        """We may not do this."""
        return self.status == HTTPStatus.FORBIDDEN

    @property
    def conflict(self) -> bool:
        """Somebody else wrote first: read again, decide again."""
        return self.status == HTTPStatus.CONFLICT and self.reason != "AlreadyExists"

    @property
    def already_exists(self) -> bool:
        """An object of that name is there."""
        return self.status == HTTPStatus.CONFLICT and self.reason == "AlreadyExists"

    @property
    def expired(self) -> bool:
        """The version asked for is compacted away: list anew."""
        return self.status == HTTPStatus.GONE

    @property
    def busy(self) -> bool:
        """The server asks for patience (too many requests, starting, or a disruption budget that holds)."""
        return self.status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)

    @property
    def uncertain(self) -> bool:
        """Whether a write may have happened all the same: the server failed on its way."""
        return self.status >= HTTPStatus.INTERNAL_SERVER_ERROR


class _Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: float = 0


class _Status(msgspec.Struct):
    reason: str = ""
    message: str = ""
    code: int = 0
    details: _Details | None = None


_STATUS = msgspec.json.Decoder(_Status)


def api_error(about: str, status: int, body: bytes, retry_after: str = "") -> ApiError:
    """The error that a response, or an ERROR event of a watch (`status` 0: take the body's), stands for."""
    try:
        told = _STATUS.decode(body)
    except (msgspec.DecodeError, msgspec.ValidationError):
        told = _Status(message=body[:500].decode(errors="replace").strip())
    seconds = float(retry_after) if retry_after.isdigit() else 0.0
    if told.details:
        seconds = max(seconds, told.details.retry_after_seconds)
    return ApiError(about, status or told.code, told.reason or "Unknown", told.message or "no reason given", seconds)
