"""Error replies of model servers, as callers get them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.replies.upstream_errors import normalise


def error_of(status: int, body: Any) -> dict[str, Any]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return dict(json.loads(normalise(status, raw).body())["error"])


VLLM = {"message": "too long", "type": "BadRequestError", "param": "input_tokens", "code": 400}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": VLLM}, "too long"),
        ({"object": "error", **VLLM}, "too long"),
        ({"error": "Unavailable"}, "Unavailable"),
        ({"detail": "Not Found"}, "Not Found"),
        ({"detail": [{"loc": ["body", "n"], "msg": "too small", "input": "a prompt"}]}, "n: too small"),
        ({"error": {"message": {"a": 1}}}, "The model server answered with an error."),
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
    ],
)
def test_what_tells_of_the_inside_is_cut_out(inside: str) -> None:
    error = error_of(500, {"error": {"message": f"failed at {inside} today"}})
    assert error["message"] == "failed at [removed] today"


@pytest.mark.parametrize(
    "message",
    ["max_tokens: 12 is too small", "the time is 10:30", "at line 3:14", "model a:b", "e.g. version 1.2.3"],
)
def test_ordinary_words_stay(message: str) -> None:
    assert error_of(400, {"error": {"message": message}})["message"] == message


@pytest.mark.parametrize("status", [401, 403, 407])
def test_that_the_gateway_is_not_let_in_is_not_the_callers_fault(status: int) -> None:
    error = normalise(status, b'{"error": "Unauthorized"}')
    assert (error.status, error.code) == (502, "upstream_unauthorized")
    assert error.headers["x-should-retry"] == "false"
