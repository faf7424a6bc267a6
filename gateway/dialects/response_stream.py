"""Reads a response, whole or as events, into what is kept of it. The last event of a stream holds all of it again."""

from __future__ import annotations

from typing import Any

import msgspec

from backends import encode

from ..answers import Frame, Kind, Reading, StreamBroken, Usage, kind_of
from ..replies.surrogates import mend

# Made anew for each reply (`response_events` and `responses` do), so not part of what is kept.
_PER_REPLY = ("id", "object", "created_at")
# Kept as members without their values, which are those of one request.
_BLANK = (
    "completed_at",
    "metadata",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
)
_NULL = msgspec.Raw(b"null")
_ABSENT = msgspec.Raw()
_ENDS = ("response.completed", "response.incomplete")


class _Response(msgspec.Struct):
    """Its members are the server's own words, hence untyped but for what makes it a response."""

    output: list[dict[str, Any]]
    status: Any = None
    store: Any = None
    usage: Any = None
    max_output_tokens: Any = None


class _Event(msgspec.Struct):
    type: str
    response: msgspec.Raw = _ABSENT
    item: msgspec.Raw = _ABSENT
    output_index: int | None = None
    error: Any = None


_read_response = msgspec.json.Decoder(_Response).decode
_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_event = msgspec.json.Decoder(_Event).decode


def payload_of(members: dict[str, msgspec.Raw]) -> bytes:
    """Each member byte for byte, but for what belongs to one request."""
    kept = {name: _NULL if name in _BLANK else raw for name, raw in members.items() if name not in _PER_REPLY}
    return b",".join(b"%s:%s" % (msgspec.json.encode(name), bytes(raw)) for name, raw in kept.items())


def reading_of(document: bytes) -> Reading:
    """Raises msgspec.DecodeError if it is no response."""
    response = _read_response(document)
    kinds: set[Kind] = set()
    texts: list[str] = []
    known = [_read_item(item, kinds, texts) for item in response.output]
    usage = _usage(response.usage)
    if response.status != "completed":
        reason = f"status-{response.status or 'missing'}".replace("_", "-")
    elif response.store:
        reason = "stored-upstream"  # whoever gets it may go on from it there
    elif not all(known):
        reason = "unknown-member"
    elif not any(texts) and not kinds & {"tool-calls", "refusal"}:
        reason = "empty"
    elif usage is not None and usage.output_tokens == response.max_output_tokens:
        reason = "finish-length"  # it may have been cut without saying so
    else:
        reason = None
    return Reading(payload_of(_read_members(document)), "".join(texts), usage, kind_of(kinds), reason)


def _usage(usage: Any) -> Usage | None:
    match usage:
        case {"input_tokens": int() as given, "output_tokens": int() as made}:
            return Usage(given, made)
    return None


def _read_item(item: dict[str, Any], kinds: set[Kind], texts: list[str]) -> bool:
    """False for what is not whole, what no stream of ours could carry, or what a server's own tool has done."""
    if item.get("status") not in (None, "completed"):
        return False
    match item.get("type"):
        case "function_call" | "custom_tool_call":
            kinds.add("tool-calls")
        case "reasoning":
            kinds.add("reasoning")
        case "message":
            for part in item.get("content") or ():
                match part:
                    case {"type": "refusal", "refusal": str()}:
                        kinds.add("refusal")
                    case {"type": "output_text", "text": str() as text}:
                        texts.append(text)
                    case _:
                        return False
        case _:
            return False
    return True


class ResponseReader:
    """A `StreamReader`."""

    def __init__(self, *, model: str | None) -> None:
        self._model = model
        self._items: dict[int, msgspec.Raw] = {}
        self._response: bytes | None = None

    @property
    def is_complete(self) -> bool:
        return self._response is not None

    def take(self, data: bytes) -> Frame:
        data = mend(data)
        try:
            event = _read_event(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _broken(data) from error
        if event.type in ("error", "response.failed") or event.error:
            raise _broken(data)
        if self._model is not None and event.response != _ABSENT:
            data = self._renamed(data)
            event = _read_event(data)
        if event.type in _ENDS:
            self._response = bytes(event.response)
        elif event.type == "response.output_item.done":
            at = len(self._items) if event.output_index is None else event.output_index
            self._items[at] = event.item.copy()
        frame = b"event: %s\n%s" % (event.type.encode(), encode(data))
        return Frame(frame, frame)

    def _renamed(self, data: bytes) -> bytes:
        event = msgspec.json.decode(data)
        if isinstance(event["response"], dict) and "model" in event["response"]:
            event["response"]["model"] = self._model
            return msgspec.json.encode(event)
        return data

    def owed(self) -> list[Frame]:
        return []

    def finish(self) -> Reading:
        document = self._response or b"{}"
        try:
            members = _read_members(document)
            if self._items and bytes(members.get("output", b"[]")) in (b"[]", b"null"):
                # Some servers leave out of their last event what they said in those before.
                items = b",".join(bytes(self._items[at]) for at in sorted(self._items))
                members["output"] = msgspec.Raw(b"[" + items + b"]")
                document = msgspec.json.encode(members)
            return reading_of(document)
        except msgspec.DecodeError:
            return Reading(payload=b"", text="", usage=None, kind="text", reason="unknown-member")


def _broken(data: bytes) -> StreamBroken:
    """What went wrong, in the one shape of errors if the server says it in any of its own."""
    try:
        said = msgspec.json.decode(data)
        told = said.get("error") or (said.get("response") or {}).get("error") or said
    except (msgspec.DecodeError, UnicodeDecodeError, AttributeError):
        return StreamBroken("invalid-chunk")
    if isinstance(told, str) or (isinstance(told, dict) and isinstance(told.get("message"), str)):
        return StreamBroken("error-chunk", body=msgspec.json.encode({"error": told}))
    is_error = said.get("type") in ("error", "response.failed") or bool(said.get("error"))
    return StreamBroken("error-chunk", body=b"{}") if is_error else StreamBroken("invalid-chunk")
