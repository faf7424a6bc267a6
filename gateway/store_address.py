"""Decides what a store URL means, and how commands are packed for the wire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

import hiredis

Argument = bytes | str | int | float

# hiredis' stub speaks of a tuple of one; it takes any length.
pack: Callable[[tuple[Argument, ...]], bytes] = hiredis.pack_command  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """Where a store is and how to enter it. `parse` reads `redis://`, `rediss://` (TLS), `unix://`."""

    host: str
    port: int
    path: str | None
    is_tls: bool
    username: str | None
    password: str | None = field(repr=False)
    database: int

    @classmethod
    def parse(cls, url: str) -> StoreAddress:
        """Raises ValueError; its message never holds the URL, which may hold a password."""
        parts = urlsplit(url)
        if parts.scheme not in ("redis", "rediss", "unix"):
            raise ValueError(f"A store URL starts with redis://, rediss:// or unix://, not {parts.scheme!r}.")
        is_unix = parts.scheme == "unix"
        if is_unix and not parts.path:
            raise ValueError("A unix:// store URL needs the path of a socket: unix:///run/store.sock")
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        database = query.get("db") or ("0" if is_unix else parts.path.strip("/") or "0")
        if not database.isdecimal():
            raise ValueError("The database of a store URL is a number: redis://host:6379/0")
        return cls(
            host=parts.hostname or "localhost",
            port=parts.port or 6379,
            path=unquote(parts.path) if is_unix else None,
            is_tls=parts.scheme == "rediss",
            username=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password) if parts.password else query.get("password"),
            database=int(database),
        )

    def greeting(self) -> list[bytes]:
        """The commands a new connection starts with; the last one is the proof that the store serves."""
        commands: list[tuple[Argument, ...]] = []
        if self.password is not None:
            commands.append(("AUTH", *([self.username] if self.username else []), self.password))
        if self.database:
            commands.append(("SELECT", self.database))
        commands.append(("PING",))
        return [pack(command) for command in commands]
