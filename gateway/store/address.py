"""Decides what a store URL means, and how commands are packed for the wire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit

import hiredis

Argument = bytes | str | int | float
Command = tuple[Argument, ...]
Kind = Literal["server", "sentinel", "cluster"]

# hiredis' stub speaks of a tuple of one; it takes any length.
pack: Callable[[Command], bytes] = hiredis.pack_command  # type: ignore[assignment]

_SCHEMES: dict[str, tuple[Kind, bool]] = {
    "redis": ("server", False),
    "rediss": ("server", True),
    "unix": ("server", False),
    "redis+sentinel": ("sentinel", False),
    "rediss+sentinel": ("sentinel", True),
    "redis+cluster": ("cluster", False),
    "rediss+cluster": ("cluster", True),
}
_PORT, _SENTINEL_PORT = 6379, 26379


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one server listens; `path` is that of a unix socket, then host and port do not count."""

    host: str
    port: int
    path: str | None = None

    def __str__(self) -> str:
        return self.path or (f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}")


@dataclass(frozen=True, slots=True)
class Login:
    """How a server is entered."""

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    database: int = 0
    is_tls: bool = False

    def commands(self) -> list[Command]:
        commands: list[Command] = []
        if self.password is not None:
            commands.append(("AUTH", *([self.username] if self.username else []), self.password))
        if self.database:
            commands.append(("SELECT", self.database))
        return commands


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """Where a store is and how to enter it. What `parse` reads:

    - `redis://host:port/db`, `rediss://…` (TLS) and `unix:///path?db=…`: one server;
    - `redis+sentinel://host:port,host:port/master-name?db=…`: the servers named are sentinels, which tell
      the master. What stands before the `@` is for the master; `sentinel_username` and `sentinel_password`
      in the query are for the sentinels;
    - `redis+cluster://host:port,host:port`: the servers named tell of all others.

    Both come with TLS as `rediss+sentinel://` and `rediss+cluster://`.
    """

    kind: Kind
    endpoints: tuple[Endpoint, ...]
    login: Login
    master_name: str | None = None
    sentinel_login: Login = Login()

    @classmethod
    def parse(cls, url: str) -> StoreAddress:
        """Raises ValueError; its message never holds the URL, which may hold a password."""
        parts = urlsplit(url)
        if parts.scheme not in _SCHEMES:
            known = ", ".join(f"{scheme}://" for scheme in _SCHEMES)
            raise ValueError(f"A store URL starts with one of {known}, not {parts.scheme!r}.")
        kind, is_tls = _SCHEMES[parts.scheme]
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        credentials, _, hosts = parts.netloc.rpartition("@")
        username, _, password = credentials.partition(":")
        path, endpoints = unquote(parts.path), _endpoints(hosts, kind)
        is_unix, is_sentinel = parts.scheme == "unix", kind == "sentinel"
        if is_unix:
            if not path:
                raise ValueError("A unix:// store URL needs the path of a socket: unix:///run/store.sock")
            endpoints = (Endpoint("localhost", _PORT, path),)
        elif kind == "server" and len(endpoints) > 1:
            raise ValueError("Several hosts make a redis+cluster:// or a redis+sentinel:// store URL.")
        elif is_sentinel and not path.strip("/"):
            raise ValueError(
                "A store URL with sentinels needs the master's name: redis+sentinel://host/mymaster"
            )
        database = _database(query.get("db") or ("" if is_unix or is_sentinel else path.strip("/")))
        if kind == "cluster" and database:
            raise ValueError("A cluster has no database but 0.")
        return cls(
            kind,
            endpoints,
            Login(unquote(username) or None, unquote(password) or query.get("password"), database, is_tls),
            master_name=path.strip("/") if is_sentinel else None,
            sentinel_login=Login(
                query.get("sentinel_username"),
                query.get("sentinel_password"),
                is_tls=is_tls and is_sentinel,
            ),
        )


def _database(text: str) -> int:
    if text and not text.isdecimal():
        raise ValueError("The database of a store URL is a number: redis://host:6379/0")
    return int(text or 0)


def _endpoints(hosts: str, kind: Kind) -> tuple[Endpoint, ...]:
    """One host at a time, as urlsplit reads IPv6 and ports but knows no lists. Its own message shows the port,
    which may be the rest of a password that somebody forgot to quote."""
    default_port = _SENTINEL_PORT if kind == "sentinel" else _PORT
    parts = [urlsplit(f"//{host}") for host in hosts.split(",")]
    try:
        return tuple(Endpoint(part.hostname or "localhost", part.port or default_port) for part in parts)
    except ValueError:
        raise ValueError("The port of a store URL is a number from 1 to 65535.") from None
