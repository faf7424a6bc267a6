"""The official `openai` for Python: the ways of asking that have a form of their own on the wire."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from observing import Target, run
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel


class Colour(BaseModel):
    colour: Literal["red", "blue"]


def _client(target: Target) -> OpenAI:
    return OpenAI(base_url=target.base_url, api_key=target.key, max_retries=0, timeout=60)


def _asking(target: Target, text: str, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    brief = {"temperature": 0, "max_tokens": 40, **target.options}
    return {"model": target.model, "messages": messages, **brief, **fields}


def chat(target: Target) -> Any:
    reply = _client(target).chat.completions.create(**_asking(target, "What is a kettle for?"))
    assert reply.usage is not None
    assert reply.choices[0].message.content
    return [reply.choices[0].model_dump(), reply.usage.model_dump(exclude={"prompt_tokens_details"})]


def chat_stream(target: Target) -> Any:
    options = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = list(
        _client(target).chat.completions.create(**_asking(target, "What is a lamp for?", **options))
    )
    assert chunks[-1].usage is not None
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def chat_stream_helper(target: Target) -> Any:
    with _client(target).chat.completions.stream(**_asking(target, "What is a chair for?")) as stream:
        return stream.get_final_completion().choices[0].message.content


def chat_async(target: Target) -> Any:
    async def ask() -> Any:
        async with AsyncOpenAI(base_url=target.base_url, api_key=target.key, max_retries=0) as client:
            reply = await client.chat.completions.create(**_asking(target, "What is a door for?"))
            return reply.choices[0].message.content

    return asyncio.run(ask())


def structured_output(target: Target) -> Any:
    options = _asking(target, "The colour of the sky?", response_format=Colour, stop=None)
    parsed = _client(target).chat.completions.parse(**options).choices[0].message.parsed
    assert isinstance(parsed, Colour)
    return parsed.colour


def logprobs(target: Target) -> Any:
    options = {"logprobs": True, "top_logprobs": 2}
    reply = _client(target).chat.completions.create(**_asking(target, "What is a window for?", **options))
    found = reply.choices[0].logprobs
    assert found is not None
    assert found.content
    return [token.token for token in found.content]


def several_choices(target: Target) -> Any:
    reply = _client(target).chat.completions.create(**_asking(target, "What is a table for?", n=2))
    assert [choice.index for choice in reply.choices] == [0, 1]
    return [choice.message.content for choice in reply.choices]


def completion(target: Target) -> Any:
    options = {"model": target.model, "prompt": "The sky is blue because", "temperature": 0}
    reply = _client(target).completions.create(**options, max_tokens=40, **target.options)
    assert reply.choices[0].text
    return reply.choices[0].text


def completion_stream(target: Target) -> Any:
    options = {"model": target.model, "prompt": "Grass is green because", "temperature": 0, "stream": True}
    chunks = list(_client(target).completions.create(**options, max_tokens=40, **target.options))
    return "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)


def response(target: Target) -> Any:
    options = {"model": target.model, "temperature": 0, "max_output_tokens": 300, "store": False}
    reply = _client(target).responses.create(input="Say yes.", **options)
    assert reply.output_text
    return reply.output_text


def response_stream(target: Target) -> Any:
    options = {"model": target.model, "temperature": 0, "max_output_tokens": 300, "store": False}
    events = list(_client(target).responses.create(input="Say no.", stream=True, **options))
    assert events[-1].type == "response.completed"
    said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert said == events[-1].response.output_text
    return said


def models(target: Target) -> Any:
    """Nothing of a cache in it."""
    assert target.model in [model.id for model in _client(target).models.list()]


if __name__ == "__main__":
    features = (
        *(chat, chat_stream, chat_stream_helper, chat_async, structured_output, logprobs, several_choices),
        *(completion, completion_stream, response, response_stream, models),
    )
    run({feature.__name__: feature for feature in features})
