"""What a part costs by itself, in a process of its own that measures itself: `python -m bench.floors NAME`.

    stream  reads streams of a model server with the gateway's own client library, and does nothing with them
    embed   embeds texts with the gateway's own embedder, one after the other

A plan on stdin, the figures on stdout.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from pathlib import Path

import aiohttp
import uvloop

from cache import OnnxEmbedder

from . import messages


async def read_streams(port: int, count: int, connections: int) -> dict[str, float]:
    """CPU of one streamed call, sent and read to its end."""
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    body = messages.chat("Why does my kettle hum?", is_stream=True).encode()
    expected = sum(map(len, messages.chunks()))
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        headers={"content-type": "application/json"},
    ) as session:

        async def reader(streams: int) -> None:
            for _ in range(streams):
                size = 0
                async with session.post(url, data=body) as response:
                    async for data in response.content.iter_any():
                        size += len(data)
                if size != expected:
                    sys.exit(f"bench.floors: a stream of {size} bytes, not {expected}")

        await asyncio.gather(*(reader(1) for _ in range(connections)))
        cpu_s = time.process_time()
        await asyncio.gather(*(reader(count // connections) for _ in range(connections)))
        return {"cpu_us": (time.process_time() - cpu_s) / (count // connections * connections) * 1e6}


def embed(folder: str, texts: list[str]) -> dict[str, float]:
    """CPU and time of one embedding."""
    embedder = OnnxEmbedder(Path(folder))
    for text in texts[:20]:
        embedder.embed(text)
    took_s = []
    cpu_s = time.process_time()
    for text in texts:
        started_s = time.perf_counter()
        embedder.embed(text)
        took_s.append(time.perf_counter() - started_s)
    return {
        "cpu_us": (time.process_time() - cpu_s) / len(texts) * 1e6,
        "p50_ms": statistics.median(took_s) * 1e3,
    }


if __name__ == "__main__":
    plan = json.load(sys.stdin)
    print(json.dumps(uvloop.run(read_streams(**plan)) if sys.argv[1] == "stream" else embed(**plan)))
