"""Decides what a repeated request with an `Idempotency-Key` gets: for a day the reply of the first one, word for word.

Replies may hold a new key, which must not lie in the store. So what is kept has the secret cut out, and the secret is
one that can be made again: from a random number that is kept, and a key that the store does not have.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Protocol, TypeVar

import msgspec
from fastapi import Header, Response
from pydantic import BaseModel
from redis.exceptions import RedisError

from ..errors import NO_RETRY, ApiError, InvalidRequest, Unavailable
from .acts import Conflict

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="Makes it safe to send this again: for 24 hours the same key gets the same reply.",
    ),
]
M = TypeVar("M", bound=BaseModel)
Make = Callable[[str], Awaitable[M]]

_KEEP_S = 86_400
_UNDER_WAY_S = 60  # longer than any request; then it is taken for one that died
_TIMEOUT_S = 2.0
_PURPOSE = b"echogate secret of an idempotent request 1\0"


class Store(Protocol):
    def execute(
        self, *command: bytes | str | int | float, deadline: float | None = None
    ) -> Awaitable[Any]: ...


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    """What is known of a request: `reply` is None while it is under way."""

    digest: bytes
    seed: bytes
    reply: bytes | None = None


class Reused(ApiError):
    status, type, code = 422, "invalid_request_error", "idempotency_key_reused"


class Once:
    """`key` is a secret of the hosts that the store does not have."""

    def __init__(self, store: Store, *, key: bytes) -> None:
        self._store = store
        self._key = key

    async def reply(
        self,
        sent: str | None,
        *,
        asked_by: Sequence[str],
        asked: BaseModel,
        shape: type[M],
        make: Make[M],
        response: Response,
    ) -> M:
        """What `make` gives for a new secret, or gave when the same was asked with the key `sent` before.

        `asked_by` are the admin and the path. Raises Reused (another request had this key), Conflict (the first one
        is under way), and what `make` raises: then it may be tried again with the same key.
        """
        if sent is None:
            return await make(secrets.token_urlsafe(32))
        if not (sent.isascii() and sent.isprintable()):
            raise InvalidRequest("Idempotency-Key must be printable ASCII.", param="Idempotency-Key")
        name = f"eg:{{k}}:once:{_digest(*asked_by, sent).hex()}"
        digest = _digest(asked.model_dump_json())
        mine = _Kept(digest, secrets.token_bytes(32))
        known = await self._claim(name, mine)
        if known is not None:
            response.headers["idempotent-replayed"] = "true"
            return shape.model_validate(self._again(known, digest))
        secret = self._secret(mine.seed)
        try:
            made = await make(secret)
        except ApiError:
            await self._ask("DEL", name)
            raise
        await self._keep(name, mine, made.model_dump(mode="json"), secret)
        return made

    async def _claim(self, name: str, mine: _Kept) -> _Kept | None:
        """What another request has left under this name; None: it is ours now."""
        taken = await self._ask("SET", name, msgspec.msgpack.encode(mine), "NX", "EX", _UNDER_WAY_S)
        if taken is not None:
            return None
        known = await self._ask("GET", name)
        if known is None:  # it was given up in this very moment
            raise Conflict("A request with this Idempotency-Key has just failed: send it again.")
        return msgspec.msgpack.decode(known, type=_Kept)

    def _again(self, known: _Kept, digest: bytes) -> dict[str, Any]:
        if not hmac.compare_digest(known.digest, digest):
            raise Reused(
                "This Idempotency-Key was used for another request: take a new one.", headers=NO_RETRY
            )
        if known.reply is None:
            raise Conflict("The first request with this Idempotency-Key is still under way.")
        reply: dict[str, Any] = msgspec.json.decode(known.reply)
        if "key" in reply:
            reply["key"] += self._secret(known.seed)
        return reply

    async def _keep(self, name: str, mine: _Kept, reply: dict[str, Any], secret: str) -> None:
        if "key" in reply:
            reply["key"] = reply["key"].removesuffix(secret)
        kept = msgspec.structs.replace(mine, reply=msgspec.json.encode(reply))
        await self._ask("SET", name, msgspec.msgpack.encode(kept), "EX", _KEEP_S)

    def _secret(self, seed: bytes) -> str:
        """32 bytes as 43 characters, like those of every key."""
        made = hmac.new(self._key, _PURPOSE + seed, hashlib.sha256).digest()
        return base64.urlsafe_b64encode(made).decode().rstrip("=")

    async def _ask(self, *command: bytes | str | int) -> Any:
        try:
            return await self._store.execute(*command, deadline=time.monotonic() + _TIMEOUT_S)
        except (OSError, RedisError) as error:
            raise Unavailable(
                "The durable store (store.durable) does not answer; a change may have been made nonetheless.",
                code="store_unavailable",
            ) from error


def _digest(*parts: str) -> bytes:
    return hashlib.sha256(msgspec.json.encode(parts)).digest()
