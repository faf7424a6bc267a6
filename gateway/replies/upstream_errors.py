"""Makes an error reply of a model server one of ours: vLLM's shapes, a proxy's page, nothing at all.

Nothing of what it says of the inside leaves: addresses, hosts, credentials.
"""

from __future__ import annotations

import json
import math
import re
import time
from email.utils import parsedate_to_datetime

from ..errors import NO_RETRY, ApiError, UpstreamError, without_secrets

_LONGEST_WAIT_S = 86_400
_UNKNOWN = "The model server answered with an error."
# URLs, IPv4 and IPv6 addresses, names of hosts: with a port of four or five digits, or an ending of inner networks.
_ADDRESS = re.compile(
    r"\b[a-z][a-z0-9+.-]*://\S+"
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"
    r"|\[(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}\](?::\d+)?|\b[0-9a-f]{1,4}(?::{1,2}[0-9a-f]{1,4}){3,7}\b"
    r"|\blocalhost(?::\d+)?\b"
    r"|\b[a-z0-9](?:[\w-]*\.)+(?:svc|local|internal|intranet|lan|corp|cluster)(?:\.[\w-]+)*(?::\d+)?\b"
    r"|\b[a-z][\w.-]*:\d{4,5}\b",
    re.I,
)

Found = tuple[str, str | None, str | None, str | None]  # message, type, code, param


def normalise(status: int, body: bytes, *, retry_after: str | None = None) -> ApiError:
    """The status is kept where the SDKs rely on it, and so is what its Retry-After header asks for, if it is a wait.

    That the server does not let the gateway in is no fault of the caller, whose own key is right: a 502.
    """
    if status in (401, 403, 407):
        return UpstreamError(
            "The model server does not accept the gateway's credentials; the operator has to set them.",
            code="upstream_unauthorized",
            headers=NO_RETRY,
        )
    message, type_, code, param = _find_error(body) or (_UNKNOWN, None, None, None)
    message = without_secrets(_ADDRESS.sub("[removed]", message))[:2000]
    error = _as_error(status, message, type_=type_, code=code, param=param)
    if (wait_s := _wait_s(retry_after)) is not None:
        error.headers["retry-after"] = str(wait_s)
    return error


def _wait_s(retry_after: str | None) -> int | None:
    """Seconds or an HTTP date, as whole seconds from now; None for anything else."""
    if retry_after is None:
        return None
    if retry_after.isascii() and retry_after.isdigit():
        seconds = float(retry_after[:9])
    else:
        try:
            seconds = parsedate_to_datetime(retry_after).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return math.ceil(seconds) if 0 < seconds <= _LONGEST_WAIT_S else None


def _as_error(
    status: int, message: str, *, type_: str | None, code: str | None, param: str | None
) -> ApiError:
    error = ApiError(
        message, param=param, code=code or ("upstream_error" if status >= 500 else "invalid_request")
    )
    error.status = status if 400 <= status <= 599 else 502
    error.type = type_ or ("server_error" if error.status >= 500 else "invalid_request_error")
    if error.status >= 500:
        error.headers |= NO_RETRY  # the pool has tried another member already
    return error


def _find_error(body: bytes) -> Found | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None  # plain text or a proxy's HTML page: it may name hosts, so nothing of it is passed on
    if not isinstance(value, dict):
        return None
    error = value.get("error", value if value.get("object") == "error" or "detail" in value else None)
    if isinstance(error, str):
        return error, None, None, None
    if not isinstance(error, dict):
        return None
    message = _message(error.get("message", error.get("detail")))
    return message, _word(error.get("type")), _word(error.get("code")), _word(error.get("param"))


def _message(said: object) -> str:
    """FastAPI says what is wrong with a body as a list, with the offending input in it, which is left out."""
    if isinstance(said, str):
        return said
    if isinstance(said, list):
        found = [_complaint(each) for each in said[:10] if isinstance(each, dict)]
        return "; ".join(each for each in found if each) or _UNKNOWN
    return _UNKNOWN


def _complaint(said: dict[str, object]) -> str:
    place = said.get("loc")
    where = ".".join(str(part) for part in place if part != "body") if isinstance(place, list) else ""
    what = said.get("msg")
    return f"{where}: {what}" if where and what else str(what or "")


def _word(value: object) -> str | None:
    """vLLM sends integer codes and OpenAI's SDKs expect strings."""
    return None if value is None or isinstance(value, bool) else str(value)[:128]
