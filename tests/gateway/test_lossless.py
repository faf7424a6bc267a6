"""Stored as a stream, read as JSON, replayed as a stream: the official SDK sees the same answer each time.

The SDK's own accumulators are the judges, over answers of every kind that is stored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st
from openai import omit
from openai._models import construct_type_unchecked
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

from backends import Parser
from gateway.dialects import CHAT, COMPLETIONS, RESPONSES, Dialect
from gateway.dialects.dialect import Fresh, Manner
from tests.gateway.replying import USAGE, USED, response, text_chunk, text_completion
from tests.scripted import delta

FRESH = Fresh(id="fresh", created=7)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
PIECES = st.lists(TEXT, min_size=1, max_size=4)
MANNER = st.sampled_from([Manner(True), Manner(True, pieces=lambda text: re.findall(r"\s*\S+\s*|\s+", text))])


def data_of(frames: Iterable[bytes]) -> list[bytes]:
    parser = Parser()
    events = [event for frame in frames for event in parser.feed(frame)]
    return [event.data for event in events if event.data != b"[DONE]"]


def read(dialect: Dialect, chunks: Iterable[bytes]) -> bytes:
    """The payload that is stored of a stream, which must be one that is stored."""
    reader = dialect.reader(None)
    for chunk in chunks:
        reader.take(chunk)
    reading = reader.finish()
    assert (reader.is_complete, reading.reason) == (True, None)
    return reading.payload


# --- chat completions


@st.composite
def chat_choices(draw: st.DrawFn, index: int) -> list[dict[str, Any]]:
    """The chunks of one choice, in order."""

    def part(**fields: Any) -> dict[str, Any]:
        return delta(index=index, **fields)

    chunks = [part(role="assistant", content=draw(st.sampled_from(["", None])))]
    for name in ("reasoning_content", "reasoning"):
        if draw(st.booleans()):
            chunks += [part(**{name: piece}) for piece in draw(PIECES)]
    kind = draw(st.sampled_from(["text", "logprobs", "refusal", "calls", "text+calls", "function_call"]))
    if "text" in kind or kind == "logprobs":
        for piece in draw(PIECES):
            chunk = part(content=piece)
            if kind == "logprobs":
                token = {"token": piece, "logprob": -0.5, "bytes": [1], "top_logprobs": []}
                chunk["choices"][0]["logprobs"] = {"content": [token], "refusal": None}
            chunks.append(chunk)
    if kind == "refusal":
        chunks += [part(refusal=piece) for piece in draw(PIECES)]
    if "calls" in kind:
        chunks += draw(calls(index))
    if kind == "function_call":
        chunks.append(part(function_call={"name": draw(TEXT), "arguments": ""}))
        chunks += [part(function_call={"arguments": piece}) for piece in draw(PIECES)]
    if draw(st.booleans()):
        citation = {"url": "u", "title": "t", "start_index": 0, "end_index": 1}
        chunks.append(part(annotations=[{"type": "url_citation", "url_citation": citation}]))
    finish = {"calls": "tool_calls", "text+calls": "tool_calls"}.get(kind, "stop")
    return [*chunks, part(finish=finish, **draw(st.sampled_from([{}, {"content": ""}])))]


@st.composite
def calls(draw: st.DrawFn, index: int) -> list[dict[str, Any]]:
    """Parallel calls, their arguments in fragments, the fragments of different calls mixed."""
    count = draw(st.integers(1, 3))
    heads, fragments = [], []
    for at in range(count):
        function = {"name": draw(TEXT), "arguments": ""}
        heads.append({"index": at, "id": f"call_{at}", "type": "function", "function": function})
        fragments += [{"index": at, "function": {"arguments": piece}} for piece in draw(PIECES)]
    fragments = [*heads, *draw(st.permutations(fragments))]
    return [delta(index=index, tool_calls=[fragment]) for fragment in fragments]


@st.composite
def chats(draw: st.DrawFn) -> list[bytes]:
    """The chunks of a whole answer, those of its choices mixed."""
    streams = [draw(chat_choices(index)) for index in range(draw(st.integers(1, 2)))]
    chunks = [stream.pop(0) for stream in streams]  # the SDK wants to meet the choices in their order
    while any(streams):
        stream = draw(st.sampled_from([stream for stream in streams if stream]))
        chunks.append(stream.pop(0))
    usage = draw(st.sampled_from(["none", "own", "last", "all"]))
    if usage == "own":
        chunks.append(delta() | {"choices": [], "usage": USAGE})
    for chunk in chunks[-1:] if usage == "last" else chunks if usage == "all" else ():
        chunk["usage"] = USAGE
    common = draw(st.sampled_from([{}, {"system_fingerprint": "fp", "service_tier": "default"}]))
    is_ascii = draw(st.booleans())
    return [json.dumps(chunk | common, ensure_ascii=is_ascii).encode() for chunk in chunks]


def chat_seen(chunks: Iterable[bytes]) -> Any:
    state = ChatCompletionStreamState()
    for chunk in chunks:
        state.handle_chunk(ChatCompletionChunk.model_validate_json(chunk))
    return _chat(state.get_final_completion().to_dict())


def _chat(completion: Any) -> Any:
    """What of a completion counts: not its id, nor by which name nothing is called."""
    for choice in completion["choices"]:
        message = {name: value for name, value in choice["message"].items() if value}
        message.pop("parsed", None)
        for call in message.get("tool_calls", ()):
            call.pop("index", None)
            call["function"].pop("parsed_arguments", None)
        choice["message"] = message
        logprobs = choice.get("logprobs") or {}
        choice["logprobs"] = {name: value for name, value in logprobs.items() if value}
    kept = ("choices", "usage", "system_fingerprint", "service_tier", "model")
    return {name: completion[name] for name in kept if completion.get(name) is not None}


@given(chats(), MANNER)
@settings(max_examples=80, deadline=None)
def test_a_chat_is_the_same_to_the_sdk_as_a_stream_as_json_and_as_a_stream_again(
    chunks: list[bytes], manner: Manner
) -> None:
    seen = chat_seen(chunks)
    payload = read(CHAT, chunks)
    whole = CHAT.as_json(payload, FRESH)
    assert _chat(ChatCompletion.model_validate_json(whole).to_dict()) == seen
    again = CHAT.read_json(whole)
    assert again.reason is None
    replayed = data_of(CHAT.as_stream(again.payload, FRESH, manner))
    assert chat_seen(replayed) == seen
    assert read(CHAT, replayed) == read(CHAT, data_of(CHAT.as_stream(payload, FRESH, manner)))


# --- completions


@given(st.lists(PIECES, min_size=1, max_size=3), MANNER, st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_completion_is_the_same_as_a_stream_as_json_and_as_a_stream_again(
    texts: list[list[str]], manner: Manner, has_logprobs: bool
) -> None:
    chunks = [
        text_chunk(piece, index=index)
        for at in range(4)
        for index, pieces in enumerate(texts)
        for piece in pieces[at : at + 1]
    ]
    for chunk in chunks if has_logprobs else ():
        choice = chunk["choices"][0]
        choice["logprobs"] = {"tokens": [choice["text"]], "token_logprobs": [-0.5], "text_offset": [0]}
    chunks += [text_chunk("", index=index, finish="stop") for index in range(len(texts))]
    chunks.append(text_chunk("") | {"choices": [], "usage": USAGE})
    payload = read(COMPLETIONS, [json.dumps(chunk).encode() for chunk in chunks])
    whole = json.loads(COMPLETIONS.as_json(payload, FRESH))
    assert [choice["text"] for choice in whole["choices"]] == ["".join(pieces) for pieces in texts]
    assert whole["usage"] == USAGE
    if has_logprobs:
        assert [choice["logprobs"]["tokens"] for choice in whole["choices"]] == texts
    replayed = data_of(COMPLETIONS.as_stream(payload, FRESH, manner))
    assert json.loads(COMPLETIONS.as_json(read(COMPLETIONS, replayed), FRESH)) == whole
    stored = COMPLETIONS.read_json(
        json.dumps(text_completion(*("".join(pieces) for pieces in texts))).encode()
    )
    assert stored.text == "".join(texts[0])


# --- responses

PART = st.one_of(
    st.builds(
        lambda text, logprobs, annotations: {
            "type": "output_text",
            "text": text,
            "annotations": annotations,
            "logprobs": logprobs,
        },
        TEXT,
        st.sampled_from([[], [{"token": "x", "logprob": -0.5, "bytes": [1], "top_logprobs": []}]]),
        st.sampled_from(
            [[], [{"type": "url_citation", "url": "u", "start_index": 0, "end_index": 1, "title": "t"}]]
        ),
    ),
    st.builds(lambda text: {"type": "refusal", "refusal": text}, TEXT),
)
MESSAGE = st.builds(
    lambda parts: {"type": "message", "role": "assistant", "status": "completed", "content": parts},
    st.lists(PART, min_size=1, max_size=3),
)
FUNCTION = st.builds(
    lambda name, arguments: {
        "type": "function_call",
        "status": "completed",
        "name": name,
        "arguments": arguments,
        "call_id": "call_1",
    },
    TEXT,
    TEXT,
)
CUSTOM = st.builds(
    lambda name, given: {"type": "custom_tool_call", "name": name, "input": given, "call_id": "call_2"},
    TEXT,
    TEXT,
)
REASONING = st.builds(
    lambda summary, content, secret: {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text} for text in summary],
        "content": [{"type": "reasoning_text", "text": text} for text in content],
        "encrypted_content": secret,
    },
    st.lists(TEXT, max_size=2),
    st.lists(TEXT, max_size=2),
    st.none() | TEXT,
)


@st.composite
def responses(draw: st.DrawFn) -> dict[str, Any]:
    items = draw(st.lists(MESSAGE | FUNCTION | CUSTOM | REASONING, max_size=3))
    items.append(draw(MESSAGE | FUNCTION))
    numbered = [
        item | {"id": f"it_{at}"} | ({"call_id": f"call_{at}"} if "call_id" in item else {})
        for at, item in enumerate(items)
    ]
    return response(*numbered, usage=USED)


def response_seen(frames: Iterable[bytes]) -> tuple[Any, Any]:
    """The whole as the SDK gives it in the end, and its own sum of all the events before."""
    state = ResponseStreamState(input_tools=[], text_format=cast(Any, omit))
    last: Any = None
    for data in data_of(frames):
        event = construct_type_unchecked(type_=cast(Any, ResponseStreamEvent), value=json.loads(data))
        for told in state.handle_event(event):
            last = told
    snapshot = state._ResponseStreamState__current_snapshot  # type: ignore[attr-defined] # for want of a door
    return last.response.to_dict(warnings=False), snapshot.to_dict(warnings=False)


def _response(whole: Any) -> Any:
    """What of a response counts: neither ids nor times, nor what the SDK has parsed of it."""
    items = []
    for item in whole["output"]:
        kept = {name: value for name, value in item.items() if name not in ("id", "parsed_arguments")}
        if item["type"] == "message":
            kept["content"] = [
                {name: value for name, value in part.items() if name != "parsed"} for part in item["content"]
            ]
        items.append(kept)
    return {**whole, "id": "", "created_at": 0, "output": items}


@given(responses(), MANNER)
@settings(max_examples=40, deadline=None)
def test_a_response_is_the_same_to_the_sdk_as_json_and_as_a_stream_and_as_json_again(
    answer: dict[str, Any], manner: Manner
) -> None:
    reading = RESPONSES.read_json(json.dumps(answer).encode())
    assert reading.reason is None
    answer = json.loads(
        RESPONSES.as_json(reading.payload, FRESH)
    )  # labels are the asker's own: here it has none
    Response.model_validate(answer)
    frames = list(RESPONSES.as_stream(reading.payload, FRESH, manner))
    told, summed = response_seen(frames)
    assert _response(told) == _response(answer)
    for item, grown in zip(answer["output"], summed["output"], strict=True):
        assert grown.get("arguments") == item.get("arguments")
        if item["type"] == "message":
            texts = [part.get("text") for part in item["content"]]
            assert [part.get("text") for part in grown["content"]] == texts
    again = read(RESPONSES, data_of(frames))
    assert json.loads(RESPONSES.as_json(again, FRESH)) == answer
