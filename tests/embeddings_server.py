"""An OpenAI-style embeddings endpoint for tests: real HTTP on a free port, in a thread, answering as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cache import UnfitText
from cache.testing import HashEmbedder

Answering = Callable[[list[str]], tuple[int, bytes]]


@dataclass
class EmbeddingsServer:
    """`asked` holds the texts of each call, `keys` what came in `Authorization`."""

    answering: Answering
    base_url: str = ""
    asked: list[list[str]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)


@contextmanager
def running_embeddings(answering: Answering) -> Iterator[EmbeddingsServer]:
    server = EmbeddingsServer(answering)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            server.asked.append(body["input"])
            server.keys.append(self.headers["authorization"])
            status, told = server.answering(body["input"])
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    server.base_url = f"http://127.0.0.1:{http.server_port}"
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def vectors(*embeddings: list[Any], tokens: int | None = None) -> tuple[int, bytes]:
    """A reply with these; the last one first, which is allowed."""
    data = [{"object": "embedding", "index": at, "embedding": each} for at, each in enumerate(embeddings)]
    reply: dict[str, Any] = {"object": "list", "data": data[::-1]}
    if tokens is not None:
        reply["usage"] = {"prompt_tokens": tokens, "total_tokens": tokens}
    return 200, json.dumps(reply).encode()


def refusal(message: str, status: int = 400) -> tuple[int, bytes]:
    return status, json.dumps({"error": {"message": message, "type": "BadRequestError"}}).encode()


def cutting(embedder: HashEmbedder, *, window: int) -> Answering:
    """As servers do that cut a text at the window and do not say so, but in the number of tokens."""

    def answer(texts: list[str]) -> tuple[int, bytes]:
        kept = [" ".join(text.split()[:window]) for text in texts]
        try:
            found = [[float(number) for number in embedder.embed(text)] for text in kept]
        except UnfitText as error:
            return refusal(str(error))
        return vectors(*found, tokens=sum(len(text.split()) for text in kept))

    return answer
