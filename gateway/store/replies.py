"""Decides what an error reply of a store means for the one who waits for it, and for the store."""

from __future__ import annotations

from redis.exceptions import NoScriptError, ResponseError

from .address import Endpoint

# The server cannot serve now, or not this command. That it is the command's fault would be the wrong conclusion.
_UNAVAILABLE = ("LOADING ", "MASTERDOWN ")
_NOT_NOW = ("CLUSTERDOWN ", "TRYAGAIN ")
_WRONG_SERVER = "READONLY "


class Unavailable(ConnectionError):
    """The server says that it cannot serve: callers fail at once until it can."""


class WrongServer(ConnectionError):
    """The server has become somebody's replica: its connection is of no use any more."""


class Redirected(ResponseError):
    """This key is served elsewhere: for good, or, `is_ask`, for this once. `host` is empty for "as here"."""

    def __init__(self, message: str) -> None:
        kind, slot, where = message.split(" ", 2)
        host, _, port = where.rpartition(":")
        self.is_ask = kind == "ASK"
        self.slot = int(slot)
        self.host = "" if host == "?" else host.strip("[]")
        self.port = int(port)
        super().__init__(f"{message} (a server of a cluster: its store URL starts with redis+cluster://)")

    def endpoint(self, *, here: Endpoint) -> Endpoint:
        return Endpoint(self.host or here.host, self.port)


def as_exception(message: str) -> Exception:
    """What hiredis makes of an error reply."""
    if message.startswith(_UNAVAILABLE):
        return Unavailable(message)
    if message.startswith(_NOT_NOW):
        return ConnectionError(message)
    if message.startswith(_WRONG_SERVER):
        return WrongServer(message)
    if message.startswith("NOSCRIPT "):
        return NoScriptError(message)
    if message.startswith(("MOVED ", "ASK ")):
        return _redirected(message)
    return ResponseError(message)


def _redirected(message: str) -> Exception:
    try:
        return Redirected(message)
    except ValueError:
        return ResponseError(message)
