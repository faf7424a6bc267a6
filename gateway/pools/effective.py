"""Decides what the pools of this deployment are: the configuration, the addresses found for its names, and what
admins changed, laid over each other. Pure but for reading credentials; who keeps them up to date is pools/keeper.py.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import msgspec

from backends import Capabilities, Member, Overlay, Pool, Timeouts, laid_over

from ..settings.errors import SettingsError
from ..settings.pools import MemberSettings, PoolSettings, UpstreamSettings
from ..settings.reading import Settings, read_api_key, read_credential

_NAME_LENGTH = 64

# By host and port of a name to be discovered: the addresses it has now.
Found = Mapping[str, Sequence[str]]
NOTHING_FOUND: Final[Found] = {}
NO_OVERLAYS: Final[Mapping[str, Overlay]] = {}


class PoolSpec(msgspec.Struct, frozen=True):
    """A pool as workers are to have it, with what the gateway itself must know of it."""

    pool: Pool
    is_sticky: bool = False
    request_timeout_s: float = 600.0


Specs = dict[str, PoolSpec]


def specs_of(
    settings: Settings, *, found: Found = NOTHING_FOUND, overlays: Mapping[str, Overlay] = NO_OVERLAYS
) -> Specs:
    """By public model name. Raises SettingsError where they could not work."""
    specs = {}
    for model, configured in settings.pools.items():
        timeouts = configured.timeouts.over(settings.upstream)
        pool = changed(configured_pool(configured, timeouts, found=found), overlays.get(model, Overlay()))
        specs[model] = PoolSpec(pool, configured.sticky_versions, timeouts.request_timeout_s)
    _check_names(specs)
    return specs


def configured_pool(configured: PoolSettings, timeouts: UpstreamSettings, *, found: Found) -> Pool:
    """As the configuration says, before what admins changed."""
    members = [one for member in configured.members for one in _found_members(member, found)]
    return Pool(
        tuple(members),
        policy=configured.policy,
        version_weights=configured.versions,
        timeouts=Timeouts(
            connect_s=timeouts.connect_timeout_s,
            first_byte_s=timeouts.first_byte_timeout_s,
            idle_s=timeouts.idle_timeout_s,
        ),
    )


def changed(pool: Pool, overlay: Overlay) -> Pool:
    """With what admins changed. Members they added get their credentials here. Where nobody would be left, removals
    do not count: a pool whose last member was removed and another one then taken out of the file still works."""
    laid = laid_over(pool, overlay)
    if not laid.members:
        laid = laid_over(pool, replace(overlay, removed=frozenset()))
    added = {member.name for member in overlay.members}
    members = tuple(_with_credential(each) if each.name in added else each for each in laid.members)
    return replace(laid, members=members)


def names_to_discover(settings: Settings) -> set[str]:
    return {
        discovery_key(member.url)
        for pool in settings.pools.values()
        for member in pool.members
        if member.discover == "dns"
    }


def discovery_key(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or 80}"


def salt_of(secret: bytes, tenant: str, asked: object) -> str:
    """The engine's prefix cache is shared by nobody but requests with the same salt: a tenant's own, and within it
    what the caller asked for. (By its timing a shared prefix cache tells what others have asked.)"""
    said = asked if isinstance(asked, str) else ""
    text = msgspec.json.encode(["cache-salt", tenant, said])
    return hmac.new(secret, text, hashlib.sha256).hexdigest()[:32]


def _found_members(member: MemberSettings, found: Found) -> list[Member]:
    """A name that has no address (yet) stands for itself: requests then fail as they do where a server is away."""
    base = _member(member)
    if member.discover == "none" or not (addresses := found.get(discovery_key(member.url))):
        return [base]
    return [
        replace(base, name=_address_name(member.name, address), base_url=_at_address(member.url, address))
        for address in addresses
    ]


def _member(member: MemberSettings) -> Member:
    able = member.capabilities
    return Member(
        name=member.name,
        base_url=member.url,
        upstream_model=member.model,
        revision=member.revision,
        weight=member.weight,
        api_key=read_api_key(member),
        tier=member.tier,
        capabilities=Capabilities(
            max_context=able.max_context,
            modalities=frozenset(able.modalities),
            features=frozenset(able.features),
        ),
        api_key_env=member.api_key_env,
    )


def _address_name(name: str, address: str) -> str:
    ending = address.replace(":", "-")
    return f"{name[: _NAME_LENGTH - len(ending) - 1]}-{ending}"


def _at_address(url: str, address: str) -> str:
    parts = urlsplit(url)
    host = f"[{address}]" if ":" in address else address
    return urlunsplit(parts._replace(netloc=f"{host}:{parts.port or 80}"))


def _with_credential(member: Member) -> Member:
    if member.api_key_env is None:
        return member
    return replace(member, api_key=read_credential(member.api_key_env))


def _check_names(specs: Specs) -> None:
    seen: set[str] = set()
    for model, spec in specs.items():
        for member in spec.pool.members:
            if member.name in seen:
                raise SettingsError(
                    f"pools: {model}: a second member is named {member.name}: names must be unique"
                )
            seen.add(member.name)
