"""Whatever a server sends: a reader raises nothing but its own error, and what it cannot keep it says why."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.answers import NotAnAnswer, StreamBroken
from gateway.dialects import DIALECTS, Dialect
from gateway.dialects.dialect import Fresh, Manner
from tests.gateway.replying import message, response, text_chunk, text_completion
from tests.scripted import completion, delta

NAMES = st.sampled_from(
    [
        *(
            "choices",
            "delta",
            "message",
            "content",
            "text",
            "index",
            "finish_reason",
            "logprobs",
            "usage",
            "model",
        ),
        *(
            "tool_calls",
            "function",
            "arguments",
            "name",
            "id",
            "type",
            "refusal",
            "role",
            "token_ids",
            "error",
        ),
        *("output", "response", "item", "status", "output_index", "summary", "x_new", "input_tokens"),
    ]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)
CHUNKS = [
    delta("x", role="assistant"),
    delta(tool_calls=[{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]),
    delta(finish="stop"),
    text_chunk("x", finish="stop"),
    {"type": "response.output_item.done", "output_index": 0, "item": message("x")},
    {"type": "response.completed", "response": response(message("x"))},
]
WHOLE = [completion("x"), text_completion("x"), response(message("x"))]
EACH = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.endpoint)


@st.composite
def spoiled(draw: st.DrawFn, sound: list[dict[str, Any]]) -> bytes:
    """Something sound with one or two of its members, at any depth, replaced by anything."""
    document = json.loads(json.dumps(draw(st.sampled_from(sound))))
    for _ in range(draw(st.integers(0, 2))):
        place: Any = document
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and place[key] and draw(st.booleans()):
                place = place[key]
                continue
            place[key] = draw(VALUES)
            break
    return json.dumps(document).encode()


@EACH
@given(
    chunks=st.lists(spoiled(CHUNKS) | st.binary(max_size=20), max_size=4), model=st.sampled_from([None, "m1"])
)
@settings(max_examples=150, deadline=None)
def test_a_stream_of_anything_breaks_as_a_stream_or_is_read(
    dialect: Dialect, chunks: list[bytes], model: str | None
) -> None:
    reader = dialect.reader(model)
    with contextlib.suppress(StreamBroken):
        for chunk in chunks:
            reader.take(chunk)
    reader.owed()
    reading = reader.finish()
    if reading.reason is None:
        _is_told(dialect, reading.payload)


@EACH
@given(body=spoiled(WHOLE) | st.binary(max_size=20))
@settings(max_examples=150, deadline=None)
def test_a_reply_of_anything_is_no_answer_or_is_read(dialect: Dialect, body: bytes) -> None:
    try:
        reading = dialect.read_json(body)
    except NotAnAnswer:
        return
    if reading.reason is None:
        _is_told(dialect, reading.payload)


def _is_told(dialect: Dialect, payload: bytes) -> None:
    """What is kept can be given, in either form."""
    fresh = Fresh(id="fresh", created=7)
    assert json.loads(dialect.as_json(payload, fresh))
    assert list(dialect.as_stream(payload, fresh, Manner(include_usage=True)))
