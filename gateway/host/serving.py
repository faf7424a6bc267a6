"""Decides how uvicorn is run here, for both planes: no access log, no signals, no trust in whom nobody named."""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import uvicorn

from ..data.protocol import HttpProtocol
from ..settings.sections import split_bind

_KEEP_ALIVE_S = 75  # above the idle timeout of the usual load balancers, so that they close first


class Server(uvicorn.Server):
    """uvicorn without its own signal handling: whoever runs it decides when it ends.

    X-Forwarded-For and X-Forwarded-Proto are believed of `trusted_proxies` (addresses and networks) alone.
    """

    def __init__(
        self,
        asgi: Any,
        *,
        grace_s: float,
        tls: ssl.SSLContext | None = None,
        trusted_proxies: Sequence[str] = (),
    ) -> None:
        super().__init__(
            uvicorn.Config(
                asgi,
                loop="none",  # the caller's
                http=HttpProtocol,
                ws="none",
                lifespan="off",
                interface="asgi3",
                access_log=False,
                log_config=None,
                server_header=False,
                proxy_headers=bool(trusted_proxies),
                forwarded_allow_ips=list(trusted_proxies),
                ssl_context_factory=None if tls is None else lambda _config, _default: tls,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=math.ceil(grace_s),
            )
        )
        self.listens = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listens.set()

    def end(self, *, grace_s: float | None = None) -> None:
        """Take no new connections and let `serve` return once the running requests are done or the grace is over."""
        if grace_s is not None:
            self.config.timeout_graceful_shutdown = math.ceil(grace_s)
        self.should_exit = True


class BindError(Exception):
    """The address cannot be listened on. The message says which setting names it."""


def reserve(address: str, *, setting: str) -> socket.socket:
    """Hold HOST:PORT for workers that will `bind` it with `is_shared`. Raises BindError if anybody has it."""
    with bind(address, setting=setting) as free:  # which a shared bind alone would not find out
        address = address_of(free)
    return bind(address, setting=setting, is_shared=True)


def bind(address: str, *, setting: str, is_shared: bool = False) -> socket.socket:
    """A socket bound to HOST:PORT that does not listen yet. Raises BindError.

    Of shared sockets the kernel gives each new connection to one that listens, evenly and at random. (Workers
    that accept from one socket do not share evenly: of 16 connections at once, one took all.)
    """
    host, port = split_bind(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio's own loop turns Nagle's algorithm off only for sockets that name their protocol.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, is_shared)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise BindError(f"cannot listen on {address} ({setting}): {error.strerror or error}") from error
    return bound


def address_of(bound: socket.socket) -> str:
    """HOST:PORT as it came out; the port is known even where 0 was asked for."""
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
