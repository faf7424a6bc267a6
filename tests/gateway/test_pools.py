"""What the pools are: configuration, discovered addresses and admins' changes laid over each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from backends import Member, Overlay, Timeouts
from gateway.pools.effective import changed, names_to_discover, salt_of, specs_of
from gateway.settings.errors import SettingsError
from gateway.settings.reading import Settings


def settings(*members: dict[str, Any], **pool: Any) -> Settings:
    named = [{"name": f"m-{number}", **member} for number, member in enumerate(members, 1)]
    pools: Any = {"m": {"members": named, **pool}}
    return Settings(pools=pools)


def names(one: Settings, **more: Any) -> list[str]:
    return [member.name for member in specs_of(one, **more)["m"].pool.members]


def test_a_member_has_what_the_configuration_says() -> None:
    able = {"max_context": 4096, "modalities": ["image"], "features": ["priority"]}
    one = settings({"url": "http://a:1", "revision": "r", "tier": 1, "weight": 2.0, "capabilities": able})
    (member,) = specs_of(one)["m"].pool.members
    assert (member.revision, member.tier, member.weight) == ("r", 1, 2.0)
    assert (member.capabilities.max_context, member.capabilities.features) == (4096, frozenset({"priority"}))


def test_a_pool_has_timeouts_of_its_own_over_those_of_all() -> None:
    one = settings({"url": "http://a:1"}, timeouts={"idle_timeout_s": 7, "request_timeout_s": 9})
    spec = specs_of(one)["m"]
    assert spec.pool.timeouts == Timeouts(connect_s=3.0, first_byte_s=120.0, idle_s=7.0)
    assert spec.request_timeout_s == 9


def test_a_name_stands_for_each_of_its_addresses() -> None:
    one = settings({"url": "http://vllm.svc:8000", "discover": "dns"})
    assert names_to_discover(one) == {"vllm.svc:8000"}
    found = {"vllm.svc:8000": ["10.0.0.1", "fd00::2"]}
    members = specs_of(one, found=found)["m"].pool.members
    assert [(m.name, m.base_url) for m in members] == [
        ("m-1-10.0.0.1", "http://10.0.0.1:8000"),
        ("m-1-fd00--2", "http://[fd00::2]:8000"),
    ]


def test_a_name_without_an_address_stands_for_itself() -> None:
    one = settings({"url": "http://vllm.svc:8000", "discover": "dns"})
    assert names(one, found={"vllm.svc:8000": []}) == ["m-1"]


def test_names_cannot_be_discovered_over_tls() -> None:
    with pytest.raises(ValueError, match="use http://"):
        settings({"url": "https://vllm.svc", "discover": "dns"})


@pytest.mark.parametrize(
    "url", ["http://a:0", "http://a:99999", "ftp://a", "http://u:p@a", "http://a?b", "a:1"]
)
def test_a_url_that_leads_nowhere_is_refused(url: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - some of it is said by the standard library
        settings({"url": url})


def test_what_admins_changed_lies_over_the_configuration() -> None:
    one = settings({"url": "http://a:1"}, {"url": "http://b:1"})
    overlay = (
        Overlay()
        .with_member(Member("new", "http://c:1", "m"))
        .without_member("m-1")
        .with_drained("m-2", cause="admin")
        .with_weights({"r": 3.0})
    )
    pool = specs_of(one, overlays={"m": overlay})["m"].pool
    assert [member.name for member in pool.members] == ["m-2", "new"]
    assert (pool.drained, pool.version_weights) == ({"m-2": "admin"}, {"r": 3.0})


def test_removals_do_not_count_where_nobody_would_be_left() -> None:
    pool = specs_of(settings({"url": "http://a:1"}))["m"].pool
    assert changed(pool, Overlay().without_member("m-1")).members == pool.members


def test_an_added_member_gets_its_credential_from_the_environment_of_this_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("THEIR_KEY", "k")
    overlay = Overlay().with_member(Member("new", "http://c:1", "m", api_key_env="THEIR_KEY"))
    (_, new) = specs_of(settings({"url": "http://a:1"}), overlays={"m": overlay})["m"].pool.members
    assert new.api_key == "k"
    assert "'k'" not in repr(new)


def test_a_name_that_comes_twice_is_refused() -> None:
    pools: Any = {
        model: {"members": [{"url": f"http://{model}:1", "name": "x", "model": "m"}]}
        for model in ("one", "two")
    }
    with pytest.raises(SettingsError, match="names must be unique"):
        specs_of(Settings(pools=pools))


def test_a_renewed_key_file_is_read_again(tmp_path: Path) -> None:
    key = tmp_path / "key"
    one = settings({"url": "http://a:1", "api_key_file": key})
    key.write_text("old\n")
    before = specs_of(one)
    key.write_text("new\n")
    assert before["m"].pool.members[0].api_key == "old"
    assert specs_of(one)["m"].pool.members[0].api_key == "new"


def test_a_salt_is_a_tenants_own_and_depends_on_what_was_asked() -> None:
    salts = {salt_of(b"s", tenant, asked) for tenant in ("a", "b") for asked in (None, "x", "y")}
    assert len(salts) == 6
    assert salt_of(b"s", "a", None) == salt_of(b"s", "a", None) != salt_of(b"t", "a", None)
