"""What a key may do in the end, and when it is refused though its secret is right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from auth import (
    SCOPES,
    UNLIMITED,
    Authenticator,
    DisabledKey,
    ExpiredKey,
    InvalidKey,
    KeyRef,
    KeyWarning,
    LevelLimits,
    Limits,
    Policy,
    Priority,
    Ref,
    Rights,
    Service,
    ServiceRef,
    Tenant,
    TenantRef,
    disabled,
    enabled,
    mint,
    rotate,
)
from auth.testing import MemoryDirectory
from tests.auth.asking import Clock, Headers, added, minted

DAY_S = 86_400.0


@pytest.fixture
def directory() -> MemoryDirectory:
    return MemoryDirectory()


@pytest.fixture
def wall() -> Clock:
    return Clock()


@pytest.fixture
def authenticator(directory: MemoryDirectory, wall: Clock) -> Authenticator:
    return Authenticator(directory, wall=wall, fresh_s=0.0)


def bearer(plaintext: str) -> Headers:
    return [(b"authorization", b"Bearer " + plaintext.encode())]


# --- rights


async def test_key_of_which_nothing_is_said_has_the_deployments_rights(directory: MemoryDirectory) -> None:
    _, headers = await added(directory)
    authenticator = Authenticator(directory, rights=Rights(cache_mode="exact", models=("small-*",)))

    principal = await authenticator.authenticate(headers)

    assert (principal.cache_mode, principal.models, principal.scopes) == ("exact", ("small-*",), SCOPES)
    assert principal.may_use("small-1")
    assert not principal.may_use("large-1")


async def test_key_goes_over_service_goes_over_tenant(
    directory: MemoryDirectory, authenticator: Authenticator
) -> None:
    tenant = Policy(models=("a",), scopes=frozenset(("chat",)), priority=Priority.BATCH, cache_scope="user")
    service = Policy(models=("b",), priority=Priority.INTERACTIVE, cache_mode="off")
    await directory.add(Tenant("acme", 1.0, policy=tenant))
    await directory.add(Service("acme", "web", 1.0, policy=service))
    record, headers = minted()
    await directory.add(replace(record, policy=Policy(models=("c", "d*"), shared_pool=True)))

    principal = await authenticator.authenticate(headers)

    assert principal.models == ("c", "d*")
    assert (principal.priority, principal.cache_mode) == (Priority.INTERACTIVE, "off")
    assert (principal.scopes, principal.cache_scope) == (frozenset(("chat",)), "user")
    assert principal.shared_pool
    assert principal.has_scope("chat")
    assert not principal.has_scope("embeddings")


async def test_limits_of_all_levels_apply_at_once(
    directory: MemoryDirectory, authenticator: Authenticator
) -> None:
    of_key, of_service, of_tenant = (Limits(requests_per_min=number) for number in (1, 2, 3))
    await directory.add(Tenant("acme", 1.0, limits=of_tenant))
    await directory.add(Service("acme", "web", 1.0, limits=of_service))
    record, headers = minted()
    await directory.add(replace(record, limits=of_key))

    assert (await authenticator.authenticate(headers)).limits == (
        LevelLimits("key", record.key_id, of_key),
        LevelLimits("service", "web", of_service),
        LevelLimits("tenant", "acme", of_tenant),
    )


async def test_level_that_limits_nothing_is_left_out(
    directory: MemoryDirectory, authenticator: Authenticator
) -> None:
    record, headers = minted()
    await directory.add(replace(record, limits=UNLIMITED))

    assert (await authenticator.authenticate(headers)).limits == ()


@pytest.mark.parametrize(
    ("patterns", "model", "is_allowed"),
    [
        (("*",), "anything/at-all", True),
        (("m1",), "m1", True),
        (("m1",), "M1", False),
        (("m1",), "m1 ", False),
        (("m1",), "m10", False),
        (("meta-llama/*",), "meta-llama/Llama-3.1-8B", True),
        (("meta-llama/*",), "other/meta-llama/x", False),
        (("m?",), "m2", True),
        (("m?",), "m22", False),
        (("a", "b*"), "bc", True),
        (("a.c",), "abc", False),
        ((), "m1", False),
    ],
)
def test_model_is_allowed_by_name_or_glob(patterns: tuple[str, ...], model: str, is_allowed: bool) -> None:
    assert Rights(models=patterns).may_use(model) is is_allowed


@pytest.mark.parametrize("pattern", ["", "m[12]", "m 1", "é", "m\n", "m" * 257])
def test_pattern_that_no_model_is_called_by_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="model"):
        Policy(models=("m1", pattern)).validate()


# --- refusals


@pytest.mark.parametrize("level", ["key", "service", "tenant"])
async def test_key_is_refused_while_anything_above_it_is_disabled(
    directory: MemoryDirectory, authenticator: Authenticator, level: str
) -> None:
    record, headers = await added(directory)
    refs: dict[str, Ref[Any]] = {
        "key": KeyRef(record.key_id),
        "service": ServiceRef("acme", "web"),
        "tenant": TenantRef("acme"),
    }
    await directory.change(refs[level], lambda it: disabled(it, at_s=1.0))

    with pytest.raises(DisabledKey, match=level):
        await authenticator.authenticate(headers)

    await directory.change(refs[level], enabled)
    assert (await authenticator.authenticate(headers)).key_id == record.key_id


async def test_who_has_not_the_secret_does_not_learn_that_a_key_is_disabled(
    directory: MemoryDirectory, authenticator: Authenticator
) -> None:
    record, _ = await added(directory)
    await directory.change(KeyRef(record.key_id), lambda it: disabled(it, at_s=1.0))
    texts = set()
    for key in (f"eg-{record.key_id}-{'A' * 43}", f"eg-abcdefghijkl-{'A' * 43}"):
        with pytest.raises(InvalidKey) as caught:
            await authenticator.authenticate(bearer(key))
        assert type(caught.value) is InvalidKey
        texts.add(str(caught.value))

    assert len(texts) == 1


async def test_key_works_until_it_expires(
    directory: MemoryDirectory, authenticator: Authenticator, wall: Clock
) -> None:
    record, headers = minted()
    await directory.add(replace(record, expires_at_s=500.0))
    wall.now_s = 499.9
    await authenticator.authenticate(headers)

    wall.now_s = 500.0
    with pytest.raises(ExpiredKey):
        await authenticator.authenticate(headers)


async def test_cached_key_expires_while_the_store_is_down(directory: MemoryDirectory, wall: Clock) -> None:
    authenticator = Authenticator(directory, wall=wall)
    record, headers = minted()
    await directory.add(replace(record, expires_at_s=500.0))
    await authenticator.authenticate(headers)
    directory.is_down = True
    wall.now_s = 500.0

    with pytest.raises(ExpiredKey):
        await authenticator.authenticate(headers)


@pytest.mark.parametrize(("days", "is_warned"), [(7.1, False), (7.0, True), (0.1, True)])
async def test_key_warns_in_the_week_before_it_expires(
    directory: MemoryDirectory, authenticator: Authenticator, wall: Clock, days: float, is_warned: bool
) -> None:
    end_s = wall.now_s + days * DAY_S
    record, headers = minted()
    await directory.add(replace(record, expires_at_s=end_s))

    warnings = (await authenticator.authenticate(headers)).warnings

    assert warnings == ((KeyWarning("expires-soon", end_s),) if is_warned else ())


async def test_both_secrets_work_in_the_grace_period_and_the_new_one_alone_after_it(
    directory: MemoryDirectory, authenticator: Authenticator, wall: Clock
) -> None:
    record, plaintext = mint(tenant="acme", service="web", name="", created_at_s=1.0)
    await directory.add(record)
    _, renewed = await rotate(directory, record.key_id, at_s=wall.now_s, grace_s=60.0)

    assert (await authenticator.authenticate(bearer(renewed))).warnings == ()
    old = await authenticator.authenticate(bearer(plaintext))
    assert old.key_id == record.key_id
    assert old.warnings == (KeyWarning("secret-was-rotated", wall.now_s + 60.0),)

    wall.now_s += 60.0
    assert (await authenticator.authenticate(bearer(renewed))).key_id == record.key_id
    with pytest.raises(ExpiredKey, match="rotated"):
        await authenticator.authenticate(bearer(plaintext))


async def test_change_of_a_tenant_is_seen_at_once_when_told(directory: MemoryDirectory) -> None:
    authenticator = Authenticator(directory)
    _, headers = await added(directory)
    other, others = minted()
    await directory.add(replace(other, tenant="globex"))
    await authenticator.authenticate(headers)
    await authenticator.authenticate(others)
    finds = directory.finds
    await directory.change(TenantRef("acme"), lambda it: disabled(it, at_s=1.0))

    authenticator.forget_tenant("acme")

    with pytest.raises(DisabledKey):
        await authenticator.authenticate(headers)
    await authenticator.authenticate(others)
    assert directory.finds == finds + 1


async def test_use_is_told_of_right_keys_alone(directory: MemoryDirectory) -> None:
    used: list[str] = []
    authenticator = Authenticator(directory, on_use=used.append)
    record, headers = await added(directory)
    with pytest.raises(InvalidKey):
        await authenticator.authenticate(bearer(f"eg-{record.key_id}-{'A' * 43}"))
    await authenticator.authenticate(headers)

    assert used == [record.key_id]
