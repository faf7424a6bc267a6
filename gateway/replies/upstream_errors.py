"""Makes an error reply of a model server one of ours: vLLM's shapes, others', plain words, a proxy's page, nothing.

Nothing of what it says of the inside leaves: addresses, hosts, credentials, files, traces. What it says may be quoted
from a caller's own request, so to read it must cost no more than a moment, whatever stands there.
"""

from __future__ import annotations

import json
import math
import re
import time
from email.utils import parsedate_to_datetime

from ..errors import NO_RETRY, ApiError, UpstreamError, without_secrets
from .surrogates import mend

_LONGEST_WAIT_S = 86_400
_LONGEST_MESSAGE = 2000
_UNKNOWN = "The model server answered with an error."
# URLs, IPv4 and IPv6 addresses, names of hosts (with a port of four or five digits, or an ending of inner networks),
# files, reprs, credentials. Each is tried only where a word begins and no further than such a thing is long, so that no
# text makes the search long.
_INSIDE = re.compile(
    r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{1,20}+://\S+"
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"
    r"|\[(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}\](?::\d+)?|\b[0-9a-f]{1,4}(?::{1,2}[0-9a-f]{1,4}){3,7}\b"
    r"|\blocalhost(?::\d+)?\b"
    r"|(?<![\w.-])[a-z0-9][\w-]{0,62}+(?:\.[\w-]{1,63}+){0,6}"
    r"\.(?:svc|local|internal|intranet|lan|corp|cluster)(?:\.[\w-]{1,63}){0,6}(?::\d+)?\b"
    r"|(?<![\w.-])[a-z][\w.-]{0,63}+:\d{4,5}\b"
    r"|\bfile \"[^\"]{1,300}+\"(?:, line \d+)?"
    r"|(?<![\w./@+-])(?:/[\w.@+-]{1,100}){2,16}\.(?:py|so|cpp|cu|rs|go|js|json|gguf|safetensors|bin)\b(?::\d+)?"
    r"|<[\w.]{1,100} object at 0x[0-9a-f]+>|<class '[^']{1,100}'>"
    r"|\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*"
    r"|\b(?:api[_-]?key|password|passwd|secret|authorization)[\"']?\s{0,3}[:=]\s{0,3}[\"']?[^\s\"',;]{4,}[\"']?",
    re.I,
)
_TRACE = re.compile(r"Traceback \(most recent call last\)")
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w{0,40}\.){0,6}[A-Z]\w{0,40}(?:Error|Exception): ")
_TOO_LONG = re.compile(r"maximum context length|exceeds the available context size", re.I)

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
    message, type_, code, param = _find_error(body) or (_plain_words(status, body), None, None, None)
    error = _as_error(status, _without_inside(message), type_=type_, code=code, param=param)
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
    if error.status == 400 and _TOO_LONG.search(message):
        error.code = (
            "context_length_exceeded"  # OpenAI's word, by which frameworks know to shorten the conversation
        )
    if error.status >= 500:
        error.headers |= NO_RETRY  # the pool has tried another member already
    if error.status == 503:
        error.headers["retry-after"] = "1"  # who is not told waits not at all
    return error


def _find_error(body: bytes) -> Found | None:
    try:
        value = json.loads(mend(body))
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list) and len(value) == 1:
        value = value[0]  # as Google wraps it
    if not isinstance(value, dict):
        return None
    error = next((value[name] for name in ("error", "detail", "errors", "message") if value.get(name)), None)
    if error is value.get("message") or isinstance(error, list):
        return _message(error), _word(value.get("type")), _word(value.get("code")), _place(value, error)
    if isinstance(error, str):
        return _message(error), None, None, None
    if not isinstance(error, dict):
        return None
    if isinstance(inner := error.get("error"), dict):
        error = inner
    said = error.get("message") or error.get("detail")
    return _message(said), _word(error.get("type")), _word(error.get("code")), _place(error, said)


def _plain_words(status: int, body: bytes) -> str:
    """A refusal in a line or two of text is for the caller to read; pages of proxies and their failures are not."""
    text = body[: 2 * _LONGEST_MESSAGE].decode("utf-8", "replace").strip()
    is_readable = 0 < len(text) <= 500 and text.replace("\\n", " ").isprintable() and text[0] not in "<{["
    return text if 400 <= status < 500 and is_readable else _UNKNOWN


def _message(said: object) -> str:
    """FastAPI says what is wrong with a body as a list, with the offending input in it, which is left out."""
    if isinstance(said, str):
        return said.strip() or _UNKNOWN
    if isinstance(said, list):
        found = [_complaint(each) for each in said[:10] if isinstance(each, dict)]
        return "; ".join(each for each in found if each) or _UNKNOWN
    return _UNKNOWN


def _complaint(said: dict[str, object]) -> str:
    where, what = _location(said), said.get("msg") or said.get("message")
    return f"{where}: {what}" if where and what else str(what or "")


def _location(said: dict[str, object]) -> str:
    place = said.get("loc")
    return ".".join(str(part) for part in place if part != "body") if isinstance(place, list) else ""


def _place(error: dict[str, object], said: object) -> str | None:
    """The parameter that is wrong: as the server names it, else where the first complaint points."""
    if (param := _word(error.get("param"))) is not None:
        return param
    first = said[0] if isinstance(said, list) and said else None
    return (_location(first)[:128] or None) if isinstance(first, dict) else None


def _without_inside(message: str) -> str:
    if len(message) > _LONGEST_MESSAGE:  # between words: half an address would not be known for one
        message = message[:_LONGEST_MESSAGE].rpartition(" ")[0] or _UNKNOWN
    if (trace := _TRACE.search(message)) is not None:
        message = message[: trace.start()].strip() or _UNKNOWN
    return without_secrets(_EXCEPTION.sub("", _INSIDE.sub("[removed]", message)))[:_LONGEST_MESSAGE]


def _word(value: object) -> str | None:
    """vLLM sends integer codes and OpenAI's SDKs expect strings."""
    return None if value is None or isinstance(value, bool | dict | list) else str(value)[:128]
