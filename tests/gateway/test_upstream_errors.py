"""Error replies of model servers, as callers get them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.replies.upstream_errors import normalise


def error_of(status: int, body: Any) -> dict[str, Any]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return dict(json.loads(normalise(status, raw).body())["error"])


NAMES = st.sampled_from(
    ["error", "message", "detail", "errors", "msg", "loc", "code", "type", "param", "object"]
)


def _shapes(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4)


VLLM = {"message": "too long", "type": "BadRequestError", "param": "input_tokens", "code": 400}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": VLLM}, "too long"),
        ({"object": "error", **VLLM}, "too long"),
        ({"error": "Unavailable"}, "Unavailable"),
        ({"detail": "Not Found"}, "Not Found"),
        ({"detail": [{"loc": ["body", "n"], "msg": "too small", "input": "a prompt"}]}, "n: too small"),
        ({"message": "no such route", "type": "x"}, "no such route"),
        ({"detail": {"message": "too hot"}}, "too hot"),
        ({"detail": {"error": {"message": "too hot"}}}, "too hot"),
        ({"errors": [{"message": "one"}, {"message": "two"}]}, "one; two"),
        ([{"error": {"message": "as Google says it", "code": 400}}], "as Google says it"),
        (b"Request too large for this route", "Request too large for this route"),
        (b'{"error":{"message":"half a \\ud83d pair"}}', "half a \ufffd pair"),
        ({"error": {"message": "  "}}, "The model server answered with an error."),
        ({"error": {"message": {"a": 1}}}, "The model server answered with an error."),
        (b"\xff\xfe\x00binary", "The model server answered with an error."),
        (b"{'error': not json", "The model server answered with an error."),
        (b"[" * 100_000, "The model server answered with an error."),
        (b'{"error":' + b"9" * 5000 + b"}", "The model server answered with an error."),
        (b"<html>nginx on vllm-3</html>", "The model server answered with an error."),
        (b"", "The model server answered with an error."),
        ([1], "The model server answered with an error."),
        ({"detail": 7}, "The model server answered with an error."),
    ],
)
def test_every_shape_becomes_openais(body: Any, message: str) -> None:
    error = error_of(400, body)
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["message"] == message
    assert isinstance(error["code"], str)
    assert isinstance(error["type"], str)


@pytest.mark.parametrize(
    "inside",
    [
        "http://vllm-1:8000/v1/chat",
        "10.1.2.3:8000",
        "192.168.0.7",
        "localhost:8000",
        "[fd00:ec2::254]:80",
        "fe80:0:0:1::2",
        "vllm-0.models.svc.cluster.local",
        "gpu-host.internal:9000",
        "vllm-1:8000",
        "sk-abcdefghij",
        "Bearer abc.def",
        "hf_abcdefghij",
        "eg-abcdefgh-secret",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_123",
        "api_key='abcdef123'",
        "password: hunter22",
        "/usr/lib/python3.11/site-packages/vllm/engine.py",
        'File "/srv/app/main.py", line 7',
        "<vllm.engine.Engine object at 0x7f00aa>",
        "<class 'vllm.Foo'>",
    ],
)
def test_what_tells_of_the_inside_is_cut_out(inside: str) -> None:
    error = error_of(500, {"error": {"message": f"failed at {inside} today"}})
    assert error["message"] == "failed at [removed] today"


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens: 12 is too small",
        "the time is 10:30",
        "at line 3:14",
        "model a:b",
        "e.g. version 1.2.3",
        "unexpected token: 'x' in /v1/chat/completions",
        "Value error, top_k must be -1 or at least 1",
        "org/model-7b does not support tools",
    ],
)
def test_ordinary_words_stay(message: str) -> None:
    assert error_of(400, {"error": {"message": message}})["message"] == message


@pytest.mark.parametrize("status", [401, 403, 407])
def test_that_the_gateway_is_not_let_in_is_not_the_callers_fault(status: int) -> None:
    error = normalise(status, b'{"error": "Unauthorized"}')
    assert (error.status, error.code) == (502, "upstream_unauthorized")
    assert error.headers["x-should-retry"] == "false"


def test_a_trace_is_cut_off_and_the_exceptions_name_too() -> None:
    said = "vllm.exceptions.ValidationError: top_k is -7\nTraceback (most recent call last):\n  ..."
    assert error_of(400, {"error": {"message": said}})["message"] == "top_k is -7"
    assert error_of(500, {"error": said[said.index("Trace") :]})["message"].endswith("with an error.")


@pytest.mark.parametrize(
    "said",
    ["This model's maximum context length is 4096 tokens.", "request (9) exceeds the available context size"],
)
def test_a_conversation_that_is_too_long_is_told_in_openais_word(said: str) -> None:
    assert error_of(400, {"error": {"message": said, "code": 400}})["code"] == "context_length_exceeded"


def test_the_parameter_that_is_wrong_is_named_as_the_server_names_it() -> None:
    assert error_of(400, {"error": VLLM})["param"] == "input_tokens"
    complaint = {"loc": ["body", "messages", 3, "content"], "msg": "Input should be a valid string"}
    error = error_of(422, {"detail": [complaint]})
    assert (error["param"], error["message"][:18]) == ("messages.3.content", "messages.3.content")


def test_words_of_a_proxy_that_failed_are_not_passed_on() -> None:
    assert error_of(503, b"no healthy upstream at vllm-3")["message"].endswith("with an error.")


def test_a_long_message_is_cut_between_words() -> None:
    message = error_of(400, {"error": {"message": "word " * 399 + "10.1.2.3:8000"}})["message"]
    assert message.endswith("word")
    assert len(message) > 1900


UNITS = ["a.", "a-", "/a", "a/", "1.", "[::", "<a.", "x://", "/a.p", ".a", "api_key ", 'file "', "a.svc."]


@given(st.lists(st.sampled_from(UNITS), min_size=1, max_size=4).map("".join))
@settings(max_examples=60, deadline=None)
def test_no_message_is_long_to_read(unit: str) -> None:
    """A search that looked on from every place of a megabyte would not end before the test's own deadline."""
    body = json.dumps({"error": {"message": unit * (1_000_000 // len(unit))}}).encode()
    assert len(normalise(500, body).message) <= 2000


@given(st.binary(max_size=300) | st.recursive(st.none() | st.text(max_size=9), _shapes, max_leaves=9))
def test_whatever_a_server_says_becomes_an_error(body: Any) -> None:
    error = error_of(500, body)
    assert isinstance(error["message"], str)
    assert isinstance(error["code"], str)
