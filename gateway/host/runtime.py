"""What a worker's shell and the gateway inside it promise each other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from ..evidence.desk import CacheDesk
from ..pools.desk import PoolDesk
from ..pools.effective import Specs
from ..settings.reading import Settings
from ..telemetry.metrics import Metrics
from .control import ControlRecord

Asgi = Callable[[Any, Any, Any], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Readiness:
    """`ok` and `degraded` serve (reasons say what is missing); `starting` and `draining` want no traffic."""

    state: Literal["ok", "degraded", "starting", "draining"]
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Runtime:
    """What the supervisor knows and a gateway needs, beside the settings.

    `live_workers` tells how many workers of this host are ready now (at least 1). `on_control` subscribes to
    control changes; the callback runs on the event loop and the change counts as acknowledged when it returns.
    `on_failed_login` is to be told the address and the public key id (None: there was none) of who had no right key.
    `specs` are the pools at the start (None: as the settings say); through what is given to `offer_pools` they follow.
    What is given to `offer_cache` answers admins.
    """

    worker: int
    durable_url: str = field(repr=False)
    cache_url: str = field(repr=False)
    secret: bytes = field(repr=False)
    live_workers: Callable[[], int]
    on_control: Callable[[Callable[[ControlRecord], None]], None]
    on_failed_login: Callable[[str, str | None], None] = lambda _address, _key_id: None
    specs: Specs | None = field(default=None, repr=False)
    offer_pools: Callable[[PoolDesk], None] = lambda _desk: None
    offer_cache: Callable[[CacheDesk], None] = lambda _desk: None


class Gateway(Protocol):
    """The data plane of one worker, as the shell around it sees it."""

    @property
    def asgi(self) -> Asgi: ...

    @property
    def metrics(self) -> Metrics: ...

    @property
    def in_flight(self) -> int: ...

    def readiness(self) -> Readiness: ...

    def start_draining(self) -> None:
        """Say so in readiness; requests that still come are served."""
        ...


OpenGateway = Callable[[Settings, Runtime], AbstractAsyncContextManager[Gateway]]
