"""Keeps this host's pools as they are to be: follows the file, the names to discover and what admins change.

Whatever changes, the same happens: all of it is laid over each other anew, checked, and handed to every worker and to
the watch over the servers. What does not pass the check is told in the log and changes nothing.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal

import structlog
from redis.exceptions import RedisError

from backends import Overlay, Pool, PoolState, StateError

from ..settings.errors import SettingsError
from ..settings.reading import Settings
from .discovery import Discovery
from .effective import Specs, configured_pool, names_to_discover, specs_of

_log = structlog.get_logger("gateway.pools.effective")

_FILE_EVERY_S = 0.5
# What a running process can follow; everything else of the file counts from the next start on.
_FOLLOWED: Final = frozenset({"pools", "upstream"})

Reload = Literal["applied", "refused"]
Signature = tuple[int, int, int] | None


class PoolKeeper:
    """`begin` once the durable store answers, then `keeping` for as long as workers run.

    `push` hands specs to all workers and gives the numbers of those that did not confirm; `announce` tells other hosts
    that admins changed something; `on_reload` counts what became of a changed file.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        config: Path | None,
        state: PoolState,
        push: Callable[[str, Specs], Awaitable[list[int]]],
        announce: Callable[[], Awaitable[None]],
        on_reload: Callable[[Reload], None],
        discovery: Discovery | None = None,
    ) -> None:
        self._settings = settings
        self._config = config
        self._loaded: Settings | None = None
        self._state = state
        self._push = push
        self._announce = announce
        self._on_reload = on_reload
        self._discovery = discovery or Discovery()
        self._overlays: Mapping[str, Overlay] = {}
        self._seen: Signature = None
        self._trouble = ""
        self._pushes = itertools.count(1)
        self._turn = asyncio.Lock()
        self.specs: Specs = {}

    async def begin(self) -> Specs:
        """The pools at the start. Raises SettingsError."""
        await self._discovery.look_up(names_to_discover(self._settings))
        await self._read_overlays()
        self._loaded, self._seen = await asyncio.to_thread(self._load_quietly)
        try:
            self.specs = self._laid_over()
        except SettingsError:
            # What admins changed no longer fits the file: the file alone has to, or there is nothing to serve.
            self.specs = specs_of(self._settings, found=self._discovery.found)
            self._refuse("what admins changed does not fit the configuration; `echogate backends reset`")
        return self.specs

    @asynccontextmanager
    async def keeping(self) -> AsyncIterator[None]:
        tasks = [
            asyncio.create_task(_again_and_again(self._look_at_file, lambda: _FILE_EVERY_S)),
            asyncio.create_task(_again_and_again(self._look_around, self._discovery_interval_s)),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    # --- what admins see and change

    @property
    def overlays(self) -> Mapping[str, Overlay]:
        return self._overlays

    def configured(self, model: str) -> Pool | None:
        """The pool as it would be had nobody changed it."""
        configured = self._settings.pools.get(model)
        if configured is None:
            return None
        timeouts = configured.timeouts.over(self._settings.upstream)
        return configured_pool(configured, timeouts, found=self._discovery.found)

    def models(self) -> list[str]:
        return list(self._settings.pools)

    def credential_names(self) -> set[str]:
        """Environment variables that the configuration already gives to members. No admin's change names another, or
        whoever may change pools could have any variable of this process sent anywhere."""
        return {
            member.api_key_env
            for pool in self._settings.pools.values()
            for member in pool.members
            if member.api_key_env is not None
        }

    def model_of(self, member: str) -> str | None:
        return next(
            (
                model
                for model, spec in self.specs.items()
                if any(each.name == member for each in spec.pool.members)
            ),
            None,
        )

    async def change(self, model: str, edit: Callable[[Overlay], Overlay]) -> list[int]:
        """Make it in the store, tell the other hosts, and have it in force here; the numbers of workers that did not
        confirm. Raises StateError, and SettingsError where pools could not work like that."""

        def checked(overlay: Overlay) -> Overlay:
            after = edit(overlay)
            specs_of(self._settings, found=self._discovery.found, overlays={**self._overlays, model: after})
            return after

        await self._state.change(model, checked)
        await self._announce()
        return await self.refresh()

    async def refresh(self) -> list[int]:
        """Read again what admins changed, and follow."""
        async with self._turn:
            await self._read_overlays()
            return await self._apply()

    # --- the file

    async def reload(self) -> Reload:
        """Follow the file, if it can be followed. Never raises."""
        async with self._turn:
            try:
                loaded = await asyncio.to_thread(Settings.load, self._config)
                specs_of(loaded, found=self._discovery.found)
            except SettingsError as error:
                _log.error("the changed configuration is refused; the old one stays", reason=str(error))
                self._on_reload("refused")
                return "refused"
            if others := self._needing_restart(loaded):
                _log.warning("some changed settings count from the next start on", sections=others)
            self._loaded = loaded
            self._settings = self._settings.model_copy(
                update={"pools": loaded.pools, "upstream": loaded.upstream}
            )
            await self._discovery.look_up(names_to_discover(self._settings))
            late = await self._apply()
            _log.info("the configuration is followed", models=sorted(self.specs), late_workers=late)
            self._on_reload("applied")
            return "applied"

    def _needing_restart(self, loaded: Settings) -> list[str]:
        before = self._loaded
        if before is None:
            return []
        return [
            name
            for name in Settings.model_fields
            if name not in _FOLLOWED and getattr(before, name) != getattr(loaded, name)
        ]

    async def _look_at_file(self) -> None:
        if self._config is None:
            return
        seen = await asyncio.to_thread(_signature, self._config)
        if seen is not None and seen != self._seen:
            self._seen = seen
            await self.reload()

    def _load_quietly(self) -> tuple[Settings | None, Signature]:
        """As the file is now; None where it cannot be read any more, which is no reason not to start."""
        seen = _signature(self._config) if self._config is not None else None
        try:
            return Settings.load(self._config), seen
        except SettingsError:
            return None, seen

    # --- everything

    def _discovery_interval_s(self) -> float:
        return self._settings.upstream.discovery_interval_s

    async def _look_around(self) -> None:
        """Names get other addresses, keys are renewed in their files, and a control record can be lost."""
        async with self._turn:
            await self._discovery.look_up(names_to_discover(self._settings))
            await self._read_overlays()
            await self._apply()

    async def _read_overlays(self) -> None:
        try:
            self._overlays = await self._state.read()
        except (StateError, RedisError) as error:
            self._refuse(str(error))

    async def _apply(self) -> list[int]:
        try:
            specs = self._laid_over()
        except SettingsError as error:
            self._refuse(str(error))
            return []
        self._trouble = ""
        if specs == self.specs:
            return []
        self.specs = specs
        return await self._push(f"pools-{next(self._pushes)}", specs)

    def _laid_over(self) -> Specs:
        return specs_of(self._settings, found=self._discovery.found, overlays=self._overlays)

    def _refuse(self, reason: str) -> None:
        """Once for each trouble, not every few seconds."""
        if reason != self._trouble:
            self._trouble = reason
            _log.error("the pools stay as they were", reason=reason)


async def _again_and_again(act: Callable[[], Awaitable[None]], pause_s: Callable[[], float]) -> None:
    while True:
        await asyncio.sleep(pause_s())
        try:
            await act()
        except Exception as error:  # the boundary of a task that nobody waits for, and that must not end
            _log.error("pools could not be looked after", error=type(error).__name__, exc_info=True)


def _signature(path: Path) -> Signature:
    """Of what the path leads to: Kubernetes changes a mounted file by turning a link."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
