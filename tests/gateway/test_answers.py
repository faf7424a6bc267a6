"""One stored form for JSON and streams: nothing is lost on the way in or out, and nothing half-made is kept."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.answers import NotAnAnswer, Reading, StreamBroken, StreamReader, Usage
from gateway.dialects import CHAT
from gateway.dialects.dialect import DONE, Fresh, Manner

FRESH = Fresh(id="fresh", created=7)
USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


def completion(*choices: dict, **more: object) -> bytes:
    return json.dumps(
        {
            "id": "chatcmpl-up",
            "object": "chat.completion",
            "created": 1,
            "model": "up",
            "choices": list(choices),
            "usage": USAGE,
        }
        | more
    ).encode()


def choice(text: str | None, finish: str | None = "stop", index: int = 0, **message: object) -> dict:
    return {
        "index": index,
        "message": {"role": "assistant", "content": text, **message},
        "logprobs": None,
        "finish_reason": finish,
    }


CALLS = [
    {"id": "c1", "type": "function", "function": {"name": "rain", "arguments": '{"city": "Oslo"}'}},
    {"id": "c2", "type": "function", "function": {"name": "wind", "arguments": "{}"}},
]


def streamed(reading: Reading, *, include_usage: bool = True) -> list[bytes]:
    return list(CHAT.as_stream(reading.payload, FRESH, Manner(include_usage)))


def data_of(frame: bytes) -> bytes:
    return frame.removeprefix(b"data: ").removesuffix(b"\n\n")


def new_reader() -> StreamReader:
    return CHAT.reader(None)


def reread(chunks: list[bytes]) -> Reading:
    reader = new_reader()
    for chunk in chunks:
        if chunk != DONE:
            reader.take(data_of(chunk))
    return reader.finish()


def document(reading: Reading) -> dict:
    return json.loads(CHAT.as_json(reading.payload, FRESH))


@pytest.mark.parametrize(
    "body",
    [
        completion(choice("Paris.")),
        completion(choice("a", index=0), choice("b", index=1), choice("c", index=2)),
        completion(choice(None, "tool_calls", tool_calls=CALLS)),
        completion(choice("x", reasoning_content="because"), system_fingerprint="fp"),
        completion(choice(None, refusal="No.")),
        completion(choice("x", annotations=[{"type": "url_citation"}, {"type": "url_citation"}])),
        completion(choice(None, "function_call", function_call={"name": "rain", "arguments": "{}"})),
        completion(choice("x", x_new={"a": [1.5]}), timings={"n": 3}),
        completion(choice("x") | {"logprobs": {"content": [{"token": "x", "logprob": -0.1}]}}),
    ],
)
def test_an_answer_survives_json_to_stream_to_json(body):
    once = CHAT.read_json(body)
    again = reread(streamed(once))
    assert once.reason is None
    assert again.reason is None
    before, after = document(once), document(again)
    for one, other in zip(before["choices"], after["choices"], strict=True):
        assert one["message"] == other["message"]
        assert one["finish_reason"] == other["finish_reason"]
        assert one["logprobs"] == other["logprobs"]
    assert before["usage"] == after["usage"]
    assert again.usage == Usage(3, 4)


@given(
    st.lists(st.text(min_size=1, alphabet=st.characters(exclude_categories=("Cs",))), min_size=1, max_size=6)
)
def test_any_chunking_of_a_text_gives_the_text(parts):
    reader = new_reader()
    for part in parts:
        reader.take(
            json.dumps(
                {"choices": [{"index": 0, "delta": {"content": part}, "finish_reason": None}]}
            ).encode()
        )
    reader.take(b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}')
    assert reader.finish().text == "".join(parts)


def test_a_reply_has_an_id_and_time_of_its_own_and_the_model_that_answered():
    found = document(CHAT.read_json(completion(choice("Paris."))))
    assert (found["id"], found["object"], found["created"], found["model"]) == (
        "chatcmpl-fresh",
        "chat.completion",
        7,
        "up",
    )


def test_unknown_members_of_a_json_answer_are_kept_as_they_were():
    body = completion(choice("x"), kv_transfer={"a": 1.0}).replace(b"1.0", b"1.50")
    assert b'"kv_transfer":{"a": 1.50}' in CHAT.as_json(CHAT.read_json(body).payload, FRESH)


def test_interleaved_choices_keep_their_indexes():
    reader = new_reader()
    for index in (2, 0, 1, 0, 2, 1):
        delta = {"index": index, "delta": {"content": str(index)}, "finish_reason": None}
        reader.take(json.dumps({"choices": [delta]}).encode())
    for index in (1, 2, 0):
        reader.take(
            json.dumps({"choices": [{"index": index, "delta": {}, "finish_reason": "stop"}]}).encode()
        )
    choices = document(reader.finish())["choices"]
    assert [(c["index"], c["message"]["content"]) for c in choices] == [(0, "00"), (1, "11"), (2, "22")]


def test_fragments_of_two_tool_calls_are_joined_by_index():
    reader = new_reader()
    for index, name in enumerate(("rain", "wind")):
        call = {
            "index": index,
            "id": f"c{index}",
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }
        reader.take(json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}).encode())
    for index, fragment in ((0, '{"a'), (1, "{"), (0, '":1}'), (1, "}")):
        call = {"index": index, "function": {"arguments": fragment}}
        reader.take(json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}).encode())
    reader.take(b'{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}')
    found = reader.finish()
    calls = document(found)["choices"][0]["message"]["tool_calls"]
    assert [(c["id"], c["function"]["name"], json.loads(c["function"]["arguments"])) for c in calls] == [
        ("c0", "rain", {"a": 1}),
        ("c1", "wind", {}),
    ]
    replayed = [json.loads(data_of(c)) for c in streamed(found) if c != DONE]
    deltas = [c["choices"][0]["delta"] for c in replayed if c["choices"]]
    assert [d["tool_calls"][0]["index"] for d in deltas if "tool_calls" in d] == [0, 1]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (completion(choice("half", "length")), "finish-length"),
        (completion(choice("x", "content_filter")), "finish-content-filter"),
        (completion(choice("x", "abort")), "finish-abort"),
        (completion(choice("x", None)), "finish-missing"),
        (completion(choice("")), "empty"),
        (completion(choice(None)), "empty"),
        (completion(), "no-choices"),
        (completion(choice("x", index=0), choice("y", "length", index=1)), "finish-length"),
        (completion(choice("x", audio={"id": "a", "expires_at": 1})), "unknown-member"),
        (completion(choice([{"type": "text"}])), "unknown-member"),
    ],
)
def test_an_answer_that_is_not_whole_is_not_kept(body, reason):
    assert CHAT.read_json(body).reason == reason


@pytest.mark.parametrize(
    "body", [b"", b"null", b"<html>", b"{}", b'{"choices": 5}', b'{"choices":[{"a":1}]}', b"[]"]
)
def test_a_200_that_is_no_completion_is_found_out(body):
    with pytest.raises(NotAnAnswer):
        CHAT.read_json(body)


@pytest.mark.parametrize(
    "data", [b"", b"null", b"{", b'{"choices":[5]}', b'{"choices":[{"delta":{}}]}', b"[1]"]
)
def test_a_chunk_that_cannot_be_read_breaks_the_stream(data):
    with pytest.raises(StreamBroken):
        new_reader().take(data)


def test_an_error_chunk_breaks_the_stream_with_its_body():
    with pytest.raises(StreamBroken) as caught:
        new_reader().take(b'{"error":{"message":"EngineCore died","code":500}}')
    assert b"EngineCore" in caught.value.body


class TestUsage:
    def test_a_usage_chunk_is_for_those_who_asked(self):
        frame = new_reader().take(json.dumps({"choices": [], "usage": USAGE}).encode())
        assert frame.without_usage is None

    def test_usage_on_the_last_choice_is_taken_off_for_those_who_did_not_ask(self):
        last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": USAGE}
        reader = new_reader()
        frame = reader.take(json.dumps(last).encode())
        assert frame.without_usage is not None
        assert b"usage" not in frame.without_usage
        (chunk,) = reader.owed()
        assert json.loads(data_of(chunk.data))["usage"] == USAGE

    def test_no_second_usage_chunk_is_made_up(self):
        reader = new_reader()
        reader.take(json.dumps({"choices": [], "usage": USAGE}).encode())
        assert reader.owed() == []

    def test_a_replay_has_usage_exactly_when_asked(self):
        reading = CHAT.read_json(completion(choice("x")))
        assert sum(b'"usage"' in chunk for chunk in streamed(reading, include_usage=False)) == 0
        *_, last, done = streamed(reading, include_usage=True)
        assert json.loads(data_of(last))["choices"] == []
        assert done == DONE
