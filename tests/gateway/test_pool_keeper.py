"""Pools follow the file, admins and discovery; what cannot work changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from backends import MemoryPoolState, Overlay, PoolState, StateUnavailable
from gateway.pools.discovery import Discovery
from gateway.pools.effective import Specs
from gateway.pools.keeper import PoolKeeper, Reload
from gateway.settings.errors import SettingsError
from gateway.settings.reading import Settings


class Host:
    """A keeper, and what it handed on."""

    def __init__(
        self, folder: Path, *, state: PoolState | None = None, discovery: Discovery | None = None
    ) -> None:
        self.file = folder / "echogate.yaml"
        self.state = state or MemoryPoolState()
        self._discovery = discovery
        self.pushed: list[Specs] = []
        self.announced = 0
        self.reloads: list[Reload] = []

    def write(self, *urls: str, **sections: object) -> None:
        members = [{"url": url, "name": url[7], "model": "m", "discover": "dns"} for url in urls]
        self.file.write_text(yaml.safe_dump({"pools": {"m": {"members": members}}, **sections}))

    async def begin(self) -> PoolKeeper:
        async def push(_: str, specs: Specs) -> list[int]:
            self.pushed.append(specs)
            return [7]

        async def announce() -> None:
            self.announced += 1

        async def nowhere(_: str) -> Sequence[str]:
            return ()

        keeper = PoolKeeper(
            Settings.load(self.file),
            config=self.file,
            state=self.state,
            push=push,
            announce=announce,
            on_reload=self.reloads.append,
            discovery=self._discovery or Discovery(nowhere),
        )
        await keeper.begin()
        return keeper


def names(specs: Specs) -> list[str]:
    return [member.name for member in specs["m"].pool.members]


async def test_a_change_is_kept_told_to_other_hosts_and_in_force(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.write("http://a", "http://b")
    keeper = await host.begin()
    late = await keeper.change("m", lambda overlay: overlay.with_drained("a", cause="admin"))
    assert (late, host.announced) == ([7], 1)
    assert host.pushed[-1]["m"].pool.drained == {"a": "admin"}
    assert (await host.state.read())["m"].drained == {"a": "admin"}


async def test_a_change_that_cannot_work_is_not_made(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.write("http://a")
    keeper = await host.begin()
    double = (await host.begin()).specs["m"].pool.members[0]
    host.file.write_text(host.file.read_text() + "  n: {members: [{url: 'http://c', name: c, model: m}]}\n")
    await keeper.reload()
    with pytest.raises(SettingsError, match="names must be unique"):
        await keeper.change("n", lambda overlay: overlay.with_member(double))
    assert await host.state.read() == {}
    assert host.announced == 0


async def test_what_admins_changed_before_is_there_at_the_start(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.write("http://a", "http://b")
    await host.state.change("m", lambda overlay: overlay.without_member("a"))
    assert names((await host.begin()).specs) == ["b"]


async def test_what_another_host_changed_is_followed(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.write("http://a", "http://b")
    keeper = await host.begin()
    await host.state.change("m", lambda overlay: overlay.without_member("a"))
    await keeper.refresh()
    assert [names(specs) for specs in host.pushed] == [["b"]]
    await keeper.refresh()
    assert len(host.pushed) == 1  # nothing new


async def test_a_changed_file_is_followed(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.write("http://a")
    keeper = await host.begin()
    host.write("http://b", upstream={"idle_timeout_s": 9})
    assert await keeper.reload() == "applied"
    timeouts = host.pushed[-1]["m"].pool.timeouts
    assert names(host.pushed[-1]) == ["b"]
    assert timeouts is not None
    assert timeouts.idle_s == 9


@pytest.mark.parametrize(
    "text", ["pools: {m: [nowhere]}", "unknown: 1", "pools: [", "pools: {m: {members: []}}"]
)
async def test_a_file_that_cannot_work_is_refused(tmp_path: Path, text: str) -> None:
    host = Host(tmp_path)
    host.write("http://a")
    keeper = await host.begin()
    host.file.write_text(text)
    assert await keeper.reload() == "refused"
    assert (host.reloads, host.pushed, names(keeper.specs)) == (["refused"], [], ["a"])


class BrokenState:
    async def read(self) -> dict[str, Overlay]:
        raise StateUnavailable("away")

    async def change(self, model: str, edit: object) -> Overlay:
        raise StateUnavailable("away")


async def test_without_the_store_the_file_still_counts(tmp_path: Path) -> None:
    host = Host(tmp_path, state=BrokenState())
    host.write("http://a")
    keeper = await host.begin()
    host.write("http://b")
    assert await keeper.reload() == "applied"
    assert names(keeper.specs) == ["b"]


async def test_addresses_come_and_go_and_a_resolver_that_is_away_takes_nobody_out(tmp_path: Path) -> None:
    answers: list[Sequence[str]] = [["10.0.0.1"], ["10.0.0.1", "10.0.0.2"], [], ["10.0.0.2"]]

    async def resolve(name: str) -> Sequence[str]:
        assert name == "a:80"
        return answers.pop(0)

    host = Host(tmp_path, discovery=Discovery(resolve))
    host.write("http://a")
    keeper = await host.begin()
    found = [names(keeper.specs)]
    for _ in range(3):
        await keeper.reload()
        found.append(names(keeper.specs))
    assert found == [
        ["a-10.0.0.1"],
        ["a-10.0.0.1", "a-10.0.0.2"],
        ["a-10.0.0.1", "a-10.0.0.2"],
        ["a-10.0.0.2"],
    ]
