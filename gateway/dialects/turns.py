"""Finds the question in a conversation: the text of its last user turn. All else of it must match exactly."""

from __future__ import annotations

from ..body import Json
from .dialect import Asked, Fuzzy

_TEXT = ("text", "input_text")

Turn = dict[str, Json]


def asked_in(turns: list[Turn]) -> Asked:
    plain = [_with_plain_text(turn) for turn in turns]
    fuzzy, rest = _split_last(plain)
    parts = [part for turn in plain for part in _parts(turn)]
    if not parts:
        return Asked(fuzzy, rest)
    if any(_is_remote(part) for part in parts):
        return Asked(
            fuzzy, rest, bypass="remote-content"
        )  # the same address can show another picture tomorrow
    if fuzzy.skip is None and any(part.get("type") not in (*_TEXT, "output_text") for part in parts):
        fuzzy = Fuzzy(fuzzy.text, fuzzy.place, "non-text-part")
    return Asked(fuzzy, rest)


def _with_plain_text(turn: Turn) -> Turn:
    """A content array of one bare text part says the same as that string."""
    match turn.get("content"):
        case [{"type": "text" | "input_text", "text": str() as text, **others}] if not others:
            return {**turn, "content": text}
    return turn


def _parts(turn: Turn) -> list[Turn]:
    """Of its content, or of what a tool gave back."""
    content = turn.get("content", turn.get("output"))
    content = [content] if isinstance(content, dict) else content
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _is_remote(part: Turn) -> bool:
    """Does the part name content that lies elsewhere (a URL that is not data:, a file id)?"""
    if part.get("file_id") is not None:
        return True
    for value in part.values():
        if isinstance(value, dict):
            url = value.get("url", value.get("file_url"))
            if isinstance(url, str) and not url.startswith("data:"):
                return True
            if value.get("file_id") is not None:
                return True
        elif isinstance(value, str) and part.get("type") not in _TEXT and "://" in value[:16]:
            return True
    return False


def _split_last(turns: list[Turn]) -> tuple[Fuzzy, list[Json]]:
    """Take the text out of the last turn. Where it stood is part of the identity: nothing collides with the gap."""
    rest: list[Json] = list(turns)
    if not turns or (role := turns[-1].get("role")) != "user":
        is_tool = bool(turns) and (
            role in ("tool", "function") or str(turns[-1].get("type")).endswith("_call_output")
        )
        return Fuzzy("", None, "tool-result" if is_tool else "last-turn-not-user"), rest
    last = turns[-1]
    match last.get("content"):
        case str() as text:
            rest[-1] = {**last, "content": None}
            return Fuzzy(text, "content", None if text.strip() else "no-text"), rest
        case [*parts]:
            return _split_parts(last, parts, rest)
    return Fuzzy("", None, "no-text"), rest


def _split_parts(last: Turn, parts: list[Json], rest: list[Json]) -> tuple[Fuzzy, list[Json]]:
    """Of several parts the last text is the question; what stands around it (documents, images) must match exactly."""
    skip = None if all(isinstance(p, dict) and p.get("type") in _TEXT for p in parts) else "non-text-part"
    for at in range(len(parts) - 1, -1, -1):
        part = parts[at]
        if isinstance(part, dict) and part.get("type") in _TEXT and isinstance(text := part.get("text"), str):
            gap: Json = {**part, "text": None}
            rest[-1] = {**last, "content": [*parts[:at], gap, *parts[at + 1 :]]}
            return Fuzzy(text, ["content", at], skip or (None if text.strip() else "no-text")), rest
    return Fuzzy("", None, skip or "no-text"), rest
