"""LiteLLM as a client, by its provider `openai/`: what its users write, but for the address."""

from __future__ import annotations

import asyncio
from typing import Any

import litellm
from observing import Target, run


def _options(target: Target, text: str) -> dict[str, Any]:
    return {
        "model": f"openai/{target.model}",
        "api_base": target.base_url,
        "api_key": target.key,
        "messages": [{"role": "user", "content": text}],
        "temperature": 0,
        "max_tokens": 40,
        "stop": [". "],
        "num_retries": 0,
    }


def completion(target: Target) -> Any:
    reply = litellm.completion(**_options(target, "What is a kettle for?"))
    assert reply.choices[0].message.content
    return [reply.choices[0].message.content, reply.choices[0].finish_reason, reply.usage.completion_tokens]


def streamed_completion(target: Target) -> Any:
    options = _options(target, "What is a lamp for?") | {"stream": True}
    options["stream_options"] = {"include_usage": True}
    chunks = list(litellm.completion(**options))
    whole = litellm.stream_chunk_builder(chunks)
    assert whole.choices[0].message.content
    return [whole.choices[0].message.content, whole.choices[0].finish_reason]


def acompletion(target: Target) -> Any:
    reply = asyncio.run(litellm.acompletion(**_options(target, "What is a chair for?")))
    assert reply.choices[0].message.content
    return reply.choices[0].message.content


def text_completion(target: Target) -> Any:
    options = _options(target, "")
    del options["messages"]
    options["model"] = f"text-completion-openai/{target.model}"
    reply = litellm.text_completion(prompt="The sky is blue because", **options)
    assert reply.choices[0].text
    return reply.choices[0].text


def json_schema(target: Target) -> Any:
    schema = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"]}
    form = {"type": "json_schema", "json_schema": {"name": "colour", "schema": schema, "strict": True}}
    options = _options(target, "The colour of the sky?") | {"response_format": form, "stop": None}
    reply = litellm.completion(**options)
    assert "colour" in reply.choices[0].message.content
    return reply.choices[0].message.content


if __name__ == "__main__":
    litellm.suppress_debug_info = True
    features = (completion, streamed_completion, acompletion, text_completion, json_schema)
    run({feature.__name__: feature for feature in features})
