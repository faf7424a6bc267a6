"""LlamaIndex's `OpenAILike`, of which nothing is changed but where it asks: chat, stream and complete."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike
from observing import Target, run


def _model(target: Target) -> OpenAILike:
    return OpenAILike(
        model=target.model,
        api_base=target.base_url,
        api_key=target.key,
        is_chat_model=True,
        temperature=0,
        max_tokens=40,
        max_retries=0,
        additional_kwargs={"stop": [". "]},
    )


def _asking(text: str) -> list[ChatMessage]:
    return [ChatMessage(role="system", content="Be brief."), ChatMessage(role="user", content=text)]


def chat(target: Target) -> Any:
    reply = _model(target).chat(_asking("What is a kettle for?"))
    assert reply.message.content
    return reply.message.content


def stream_chat(target: Target) -> Any:
    said = "".join(part.delta or "" for part in _model(target).stream_chat(_asking("What is a lamp for?")))
    assert said
    return said


def complete(target: Target) -> Any:
    """By a chat, since the model is one."""
    said = _model(target).complete("What is a chair for?").text
    assert said
    return said


def stream_complete(target: Target) -> Any:
    said = "".join(part.delta or "" for part in _model(target).stream_complete("What is a table for?"))
    assert said
    return said


def complete_plainly(target: Target) -> Any:
    """By `/v1/completions`."""
    model = _model(target)
    model.is_chat_model = False
    said = model.complete("The sky is blue because").text
    assert said
    return said


def achat(target: Target) -> Any:
    async def ask() -> str:
        return (await _model(target).achat(_asking("What is a door for?"))).message.content or ""

    said = asyncio.run(ask())
    assert said
    return said


def astream_chat(target: Target) -> Any:
    async def ask() -> str:
        parts = await _model(target).astream_chat(_asking("What is a window for?"))
        return "".join([part.delta or "" async for part in parts])

    said = asyncio.run(ask())
    assert said
    return said


if __name__ == "__main__":
    features = (chat, stream_chat, complete, stream_complete, complete_plainly, achat, astream_chat)
    run({feature.__name__: feature for feature in features})
