"""Reads a response, whole or as events, into what is kept of it. The last event of a stream holds all of it again."""

from __future__ import annotations

from typing import Any

import msgspec

from backends import encode

from ..answers import Frame, Kind, Reading, StreamBroken, Usage
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
_CALLS = ("function_call", "custom_tool_call")
_ENDS = ("response.completed", "response.incomplete")


class _Usage(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0


class _Item(msgspec.Struct):
    """One of `output`. Its members are the server's own words."""

    type: str = "message"
    status: str | None = None
    content: list[dict[str, Any]] | None = None


class _Response(msgspec.Struct):
    output: list[_Item]
    status: str | None = None
    store: bool | None = None
    usage: _Usage | None = None


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
    reason = (
        None if response.status == "completed" else f"status-{response.status or 'missing'}".replace("_", "-")
    )
    if response.store:
        reason = reason or "stored-upstream"  # whoever gets it may go on from it there
    for item in response.output:
        is_known = _read_item(item, kinds, texts)
        if not is_known or item.status not in (None, "completed"):
            reason = reason or "unknown-member"
    if not any(texts) and not kinds & {"tool-calls", "refusal"}:
        reason = reason or "empty"
    kind: Kind = next((each for each in ("tool-calls", "refusal", "reasoning") if each in kinds), "text")
    usage = response.usage
    return Reading(
        payload=payload_of(_read_members(document)),
        text="".join(texts),
        usage=None if usage is None else Usage(usage.input_tokens, usage.output_tokens),
        kind=kind,
        reason=reason,
    )


def _read_item(item: _Item, kinds: set[Kind], texts: list[str]) -> bool:
    """False for what no stream of ours could carry, or what a server's own tool has done."""
    if item.type in _CALLS:
        kinds.add("tool-calls")
    elif item.type == "reasoning":
        kinds.add("reasoning")
    elif item.type == "message":
        for part in item.content or ():
            if part.get("type") == "refusal":
                kinds.add("refusal")
            elif part.get("type") == "output_text" and isinstance(part.get("text"), str):
                texts.append(part["text"])
            else:
                return False
    else:
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
