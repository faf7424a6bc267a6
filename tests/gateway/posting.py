"""Requests to any endpoint of a gateway, and what its streams say."""

from __future__ import annotations

import json
from typing import Any

import httpx

from tests.running import RunningGateway


async def post(gateway: RunningGateway, path: str, **body: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {gateway.key}"}
    reply = await gateway.client.post(path, json={"model": "m1", "temperature": 0} | body, headers=headers)
    await gateway.idle()
    return reply


def told(reply: httpx.Response) -> list[tuple[str | None, Any]]:
    """The events of a stream: name and data."""
    found = []
    for block in filter(None, reply.text.split("\n\n")):
        lines = dict(line.split(": ", 1) for line in block.split("\n"))
        data = lines["data"]
        found.append((lines.get("event"), data if data == "[DONE]" else json.loads(data)))
    return found
