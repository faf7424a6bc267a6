"""What a request needs of a model server, and where it would rather go: read off its body and headers.

Only what some member of the pool says it can do is asked for: a pool that declares nothing takes every request, and
the server itself says what it cannot.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from auth import Principal, Scope
from backends import (
    Affinity,
    Explanation,
    Member,
    MemberView,
    Needs,
    Pool,
    Pools,
    Signals,
    UnknownModel,
    Version,
)

from .body import Body, Json, canonical
from .errors import missing_scope, unknown_model
from .pools.effective import Specs, salt_of

SESSION_HEADER: Final = b"x-echogate-session"
_NO_NEEDS: Final = Needs()
_NO_AFFINITY: Final = Affinity()
# A token is about four bytes of English and three of others; too few leaves the refusal to the server, as without us.
_BYTES_A_TOKEN = 4
_NO_POOL_S = 60.0  # what is refused anyway has time to be
_MODALITY_OF: Final = {
    "image_url": "image",
    "input_image": "image",
    "input_audio": "audio",
    "audio_url": "audio",
    "video_url": "video",
    "file": "file",
    "input_file": "file",
}


class Route(msgspec.Struct, frozen=True):
    """Where a request may go, fixed before the cache is asked, and what its tenant brings along.

    `deadline_s` is a moment on `time.monotonic()`.
    """

    version: Version
    deadline_s: float
    needs: Needs
    affinity: Affinity
    tenant: str
    priority: int
    secret: bytes

    def fields_for(self, member: Member, values: Mapping[str, Json]) -> dict[str, str]:
        """Fields that the gateway itself sets for a member that understands them, as JSON.

        Nobody gets ahead of their key's class by what they write into `priority`; they may stand back.
        """
        features, fields = member.capabilities.features, {}
        if "priority" in features:
            asked = values.get("priority")
            standing_back = asked if isinstance(asked, int) and not isinstance(asked, bool) else 0
            fields["priority"] = canonical(max(self.priority, standing_back))
        if "cache_salt" in features:
            fields["cache_salt"] = canonical(salt_of(self.secret, self.tenant, values.get("cache_salt")))
        return fields


class _Abilities(msgspec.Struct, frozen=True):
    """What members of a pool say they can do, taken together."""

    longest_context: int  # 0: nobody says
    modalities: frozenset[str]
    is_sticky: bool
    has_prefixes: bool
    request_timeout_s: float


class Routing:
    """The pools as this worker has them, and what is decided of a request before it is sent."""

    def __init__(self, pools: Pools, specs: Specs, *, secret: bytes) -> None:
        self.pools = pools
        self._secret = secret
        self._know(specs)

    # --- what the supervisor tells and asks

    def use(self, specs: Specs) -> None:
        """Follow a new configuration at once."""
        self.pools.update({model: spec.pool for model, spec in specs.items()})
        self._know(specs)

    def hear(self, signals: Iterable[Signals]) -> None:
        self.pools.update_signals(signals)

    def members(self) -> list[MemberView]:
        return self.pools.members()

    def explain(self, model: str, *, sticky: str | None, needs: Needs, affinity: Affinity) -> Explanation:
        """As `Pools.explain`, for needs that anybody in the pool can meet."""
        able = self._abilities.get(model)
        if able is not None:
            needs = _within(needs, able)
        return self.pools.explain(model, sticky=sticky, needs=needs, affinity=affinity)

    def _know(self, specs: Specs) -> None:
        """`longest_request_s`: no request of any pool may take longer."""
        self._abilities = _abilities_of(specs)
        timeouts_s = (able.request_timeout_s for able in self._abilities.values())
        self.longest_request_s = max(timeouts_s, default=_NO_POOL_S)

    # --- requests

    def permitted(
        self,
        model: str,
        principal: Principal,
        body: Body,
        headers: Mapping[bytes, bytes],
        *,
        scope: Scope,
        body_bytes: int,
        began_s: float,
        deadline_s: float,
    ) -> Route:
        """The route of a request whose key may make it. Raises ApiError: a scope that it lacks, a model that is not
        there or not for this key."""
        if not principal.has_scope(scope):
            raise missing_scope(scope)
        if not principal.may_use(model):
            raise unknown_model(model)
        try:
            return self.route(
                model,
                principal,
                body,
                headers,
                body_bytes=body_bytes,
                began_s=began_s,
                deadline_s=deadline_s,
            )
        except UnknownModel as error:
            raise unknown_model(model) from error

    def route(
        self,
        model: str,
        principal: Principal,
        body: Body,
        headers: Mapping[bytes, bytes],
        *,
        body_bytes: int,
        began_s: float,
        deadline_s: float,
    ) -> Route:
        """Raises UnknownModel."""
        able = self._abilities.get(model)
        needs, affinity, sticky = _NO_NEEDS, _NO_AFFINITY, None
        if able is not None:
            needs = _needs(body.values, able, body_bytes)
            affinity = _affinity(body.values, headers, able, principal)
            sticky = principal.key_id if able.is_sticky else None
            deadline_s = min(deadline_s, began_s + able.request_timeout_s)
        version = self.pools.resolve(model, sticky=sticky, needs=needs)
        return Route(
            version,
            deadline_s,
            needs,
            affinity,
            principal.tenant,
            int(principal.priority),
            self._secret,
        )

    def serves(self, model: str) -> bool:
        return model in self._abilities

    def unusable(self) -> list[str]:
        """Models that nobody can serve now, as far as this worker knows."""
        usable: dict[str, bool] = {}
        for member in self.members():
            is_in = member.state == "active" and member.standing == "in"
            usable[member.model] = usable.get(member.model, False) or is_in
        return [model for model, is_usable in usable.items() if not is_usable]


def _abilities_of(specs: Specs) -> dict[str, _Abilities]:
    return {
        model: _Abilities(
            longest_context=_longest_context(spec.pool),
            modalities=frozenset[str]().union(*(m.capabilities.modalities for m in spec.pool.members)),
            is_sticky=spec.is_sticky,
            has_prefixes=spec.pool.policy == "prefix",
            request_timeout_s=spec.request_timeout_s,
        )
        for model, spec in specs.items()
    }


def _longest_context(pool: Pool) -> int:
    """Of those that say; where somebody does not, he is taken to be able to anything."""
    return max((member.capabilities.max_context or 0 for member in pool.members), default=0)


def _needs(values: Mapping[str, Json], able: _Abilities, body_bytes: int) -> Needs:
    if not able.longest_context and not able.modalities:
        return _NO_NEEDS
    tokens = body_bytes // _BYTES_A_TOKEN + _most_output(values)
    return _within(Needs(context_tokens=tokens, modalities=_modalities(_turns(values))), able)


def _within(needs: Needs, able: _Abilities) -> Needs:
    """What is too long for everybody goes to who reads most, and is refused there in the server's own words."""
    return Needs(
        context_tokens=min(needs.context_tokens, able.longest_context),
        modalities=needs.modalities & able.modalities,
    )


def _most_output(values: Mapping[str, Json]) -> int:
    for name in ("max_completion_tokens", "max_tokens", "max_output_tokens"):
        most = values.get(name)
        if isinstance(most, int) and not isinstance(most, bool) and most > 0:
            return most
    return 0


def _turns(values: Mapping[str, Json]) -> Json:
    """Of a chat, or of what a response is asked to."""
    return values.get("messages", values.get("input"))


def _modalities(messages: Json) -> frozenset[str]:
    found = set()
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content") if isinstance(message, dict) else None
        for part in content if isinstance(content, list) else ():
            kind = part.get("type") if isinstance(part, dict) else None
            if isinstance(kind, str) and kind in _MODALITY_OF:
                found.add(_MODALITY_OF[kind])
    return frozenset(found)


def _affinity(
    values: Mapping[str, Json], headers: Mapping[bytes, bytes], able: _Abilities, principal: Principal
) -> Affinity:
    session = headers.get(SESSION_HEADER)
    messages = _turns(values) if able.has_prefixes else None
    # The first message, mostly the system's, is what requests of one application share.
    first = canonical(messages[0]) if isinstance(messages, list) and messages else None
    if session is None and first is None:
        return _NO_AFFINITY
    return Affinity(
        session=affinity_key(principal.tenant, session.decode("latin-1")) if session is not None else None,
        prefix=affinity_key(principal.tenant, first) if first is not None else None,
    )


def affinity_key(tenant: str, text: str) -> str:
    """Keys are a tenant's own: nobody can find out by timing where another's requests go."""
    return hashlib.blake2b(f"{tenant}\0{text}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
