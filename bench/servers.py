"""The servers that a benchmark needs beside the gateway, each a process: `python -m bench.servers NAME`.

    echo       a bare ASGI echo on uvicorn, run exactly as the gateway's workers are: the floor
    upstream   a model server that answers at once, JSON or a stream
    collector  takes OTLP traces, counts them, and tells the counts on GET

Each prints its port and ends when its stdin does, or at SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, ClassVar, cast

import uvloop
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.host.serving import Server

from . import messages

# Tokens of a real server come one by one; chunks that came in one read would be a stream in name only.
_CHUNK_EVERY_S = 0.001


async def _echo(scope: Any, receive: Any, send: Any) -> None:
    body = b""
    while True:
        message = await receive()
        body += message["body"]
        if not message["more_body"]:
            break
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _Http(asyncio.Protocol):
    """HTTP/1.1 as far as these clients speak it: one request at a time, bodies with a length."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop has transports of its own
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        if separator and len(body) >= length:
            self._buffer = b""
            self.answer(head, body)

    def answer(self, head: bytes, body: bytes) -> None:
        raise NotImplementedError


def _json(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )


class _Upstream(_Http):
    _ANSWER = _json(messages.completion())
    _STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    _CHUNKS = tuple(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in messages.chunks())

    def answer(self, head: bytes, body: bytes) -> None:
        if b'"stream":true' in body:
            self.transport.write(self._STREAM_HEAD)
            self._send_chunk(0)
        else:
            self.transport.write(self._ANSWER)

    def _send_chunk(self, number: int) -> None:
        self.transport.write(self._CHUNKS[number])
        if number + 1 < len(self._CHUNKS):
            asyncio.get_running_loop().call_later(_CHUNK_EVERY_S, self._send_chunk, number + 1)
        else:
            self.transport.write(b"0\r\n\r\n")


class _Collector(_Http):
    traces: ClassVar[set[bytes]] = set()
    spans: ClassVar[int] = 0

    def answer(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"GET"):
            self.transport.write(
                _json(json.dumps({"traces": len(self.traces), "spans": self.spans}).encode())
            )
            return
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                _Collector.spans += len(scope.spans)
                self.traces.update(span.trace_id for span in scope.spans)
        self.transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n"
        )


async def _serve_echo(listener: socket.socket, stop: asyncio.Event) -> None:
    server = Server(_echo, grace_s=1)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    await stop.wait()
    server.end()
    await serving


async def _serve(
    protocol: Callable[[], asyncio.Protocol], listener: socket.socket, stop: asyncio.Event
) -> None:
    server = await asyncio.get_running_loop().create_server(protocol, sock=listener)
    await stop.wait()
    server.close()


async def main(name: str) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_reader(sys.stdin, stop.set)  # nothing is ever written to it: readable means closed
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    print(listener.getsockname()[1], flush=True)
    match name:
        case "echo":
            await _serve_echo(listener, stop)
        case "upstream":
            await _serve(_Upstream, listener, stop)
        case "collector":
            await _serve(_Collector, listener, stop)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
