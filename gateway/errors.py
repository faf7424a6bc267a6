"""Every error a caller can get, in OpenAI's shape, and how foreign errors become one of them.

ApiError                 status, type, code
├── InvalidRequest       400 invalid_request_error
├── Unauthorized         401 invalid_api_key
├── Forbidden            403 permission_denied
├── NotFound             404 not_found, model_not_found
├── MethodNotAllowed     405
├── TooLarge             413 request_too_large
├── RateLimited          429 rate_limit_exceeded
├── UpstreamError        502 upstream_error
├── Unavailable          503 auth_unavailable, limits_unavailable, no_backend
└── TimedOut             504 upstream_timeout, cache_miss
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import msgspec

from auth import AuthError, KeysUnavailable, LimitsUnavailable, Refusal
from backends import BackendError, NoBackend, UpstreamFailed, UpstreamTimeout

# The official SDKs retry 408, 409, 429 and all of 5xx twice. Where that cannot help, we say so.
NO_RETRY = {"x-should-retry": "false"}
_SOON = {"retry-after": "1"}


# What our own messages say to send (`Bearer <key>`) is none.
_SECRET = re.compile(r"\b(?:sk|ega?|hf)[-_][A-Za-z0-9_-]{6,}|\bBearer\s+(?!<key>)\S+", re.I)


def without_secrets(text: str) -> str:
    return _SECRET.sub("[removed]", text)


class ApiError(Exception):
    """An error to be sent to the caller. The message says what was found, what was expected, what to change."""

    status = 500
    type = "server_error"
    code = "internal_error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.code
        self.param = param
        self.headers = dict(headers or {})

    def body(self) -> bytes:
        # Messages say what was found, and somebody may have put a key where a name belongs.
        message = without_secrets(self.message)
        param = None if self.param is None else without_secrets(self.param)
        return error_body(message, type_=self.type, param=param, code=self.code)


class InvalidRequest(ApiError):
    status, type, code = 400, "invalid_request_error", "invalid_request"


class Unauthorized(ApiError):
    status, type, code = 401, "invalid_request_error", "invalid_api_key"


class Forbidden(ApiError):
    status, type, code = 403, "permission_error", "permission_denied"


class NotFound(ApiError):
    status, type, code = 404, "invalid_request_error", "not_found"


class MethodNotAllowed(ApiError):
    status, type, code = 405, "invalid_request_error", "method_not_allowed"


class TooLarge(ApiError):
    status, type, code = 413, "invalid_request_error", "request_too_large"


class RateLimited(ApiError):
    status, type, code = 429, "requests", "rate_limit_exceeded"


class UpstreamError(ApiError):
    status, type, code = 502, "server_error", "upstream_error"


class Unavailable(ApiError):
    status, type, code = 503, "server_error", "unavailable"


class TimedOut(ApiError):
    status, type, code = 504, "server_error", "upstream_timeout"


def error_body(message: str, *, type_: str, param: str | None, code: str | None) -> bytes:
    return msgspec.json.encode({"error": {"message": message, "type": type_, "param": param, "code": code}})


def from_auth(error: AuthError) -> ApiError:
    if isinstance(error, KeysUnavailable):
        return Unavailable(
            "The key store does not answer and this key was not seen lately; try again soon.",
            code="auth_unavailable",
            headers=_SOON,
        )
    return Unauthorized(str(error), headers={"www-authenticate": "Bearer"} | NO_RETRY)


def missing_scope(scope: str) -> Forbidden:
    return Forbidden(f"This key does not have the scope {scope!r}; ask for one that has.", headers=NO_RETRY)


def unknown_model(model: str) -> NotFound:
    """The same words for a model that is not there and for one that this key may not use."""
    return NotFound(
        f"The model {model[:128]!r} does not exist here, or this key may not use it.",
        code="model_not_found",
        param="model",
        headers=NO_RETRY,
    )


def only_if_cached() -> TimedOut:
    return TimedOut(
        "No stored answer may be given to this, and only-if-cached was asked.",
        code="cache_miss",
        headers=NO_RETRY,
    )


def from_backend(error: BackendError) -> ApiError:
    if isinstance(error, NoBackend):
        return Unavailable(
            "No backend of this model can be tried right now; try again soon.",
            code="no_backend",
            headers=_SOON,
        )
    # The pool has tried twice already; three more rounds by the SDK would only multiply the load.
    if isinstance(error, UpstreamTimeout):
        return TimedOut("The model server did not answer in time.", headers=NO_RETRY)
    if isinstance(error, UpstreamFailed) and error.reason == "connect":
        return UpstreamError("No model server of this pool could be reached.", headers=NO_RETRY)
    return UpstreamError("The model server broke off before it had answered.", headers=NO_RETRY)


def from_limits(_: LimitsUnavailable) -> Unavailable:
    return Unavailable(
        "The store of limits does not answer; try again soon.", code="limits_unavailable", headers=_SOON
    )


def from_refusal(refusal: Refusal) -> RateLimited:
    """429 with both forms of the wait: whole seconds for everybody, milliseconds for the OpenAI SDKs."""
    if refusal.retry_after_s is None:
        spent = RateLimited(
            f"The limit of {refusal.limit} is reached, and waiting does not help: the request is larger than "
            "the limit, or the budget of this period is spent.",
            code="insufficient_quota",
            headers=NO_RETRY,
        )
        spent.type = "insufficient_quota"
        return spent
    wait_ms = max(1, math.ceil(refusal.retry_after_s * 1000))
    return RateLimited(
        f"Rate limit reached: {refusal.limit}. Try again in {wait_ms} ms.",
        headers={"retry-after": str(-(-wait_ms // 1000)), "retry-after-ms": str(wait_ms)},
    )


def place_of(error: BaseException) -> str:
    """Where an error was raised, without its message: that might quote a prompt."""
    trace = error.__traceback__
    places = []
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return " < ".join(reversed(places[-6:]))
