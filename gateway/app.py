"""Puts a worker's data plane together from the leaves and the settings, and takes it apart again in reverse."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import structlog

from auth import Authenticator, Limiter, Rights, StoreDirectory, StoreLimits
from backends import Member, Pools, Timeouts, VllmBackend
from cache import (
    EmbedQueue,
    FaissIndex,
    Follower,
    ModelError,
    NoEmbedder,
    RedisEntries,
    SemanticCache,
    Spaces,
    open_embedder,
)
from cache import Policy as AcceptancePolicy

from .admission import Admissions
from .asking import Asking
from .control import KeyChanged
from .data.health import Health
from .data.models import Models
from .flight import Flights
from .front import Front
from .metrics import Metrics
from .pipeline import Pipeline, Policy
from .relay import AnswerFlights
from .runtime import Asgi, Readiness, Runtime
from .settings import Settings, read_api_key
from .store import StoreClient
from .telemetry import Telemetry

_log = structlog.get_logger("gateway.app")

# How long a start waits for the index to be rebuilt from the store, and a stop for spans to leave.
_CATCH_UP_S = 10.0
_SPANS_S = 5.0
# A blocking read of the change streams is silent for as long as nothing changes.
_READER_SILENCE_S = 30.0


class DataPlane:
    """What the worker's shell serves and asks."""

    def __init__(
        self,
        *,
        front: Front,
        cache: SemanticCache,
        pools: Pools,
        metrics: Metrics,
        stores: dict[str, StoreClient],
        standing: tuple[str, ...],
    ) -> None:
        self._front = front
        self.cache = cache
        self.pools = pools
        self._stores = stores
        self._standing = standing
        self._is_draining = False
        self.metrics = metrics

    @property
    def asgi(self) -> Asgi:
        return self._front

    @property
    def in_flight(self) -> int:
        return self._front.in_flight

    def start_draining(self) -> None:
        self._is_draining = True

    def readiness(self) -> Readiness:
        if self._is_draining:
            return Readiness("draining")
        down = [
            f"the {role} store does not answer" for role, store in self._stores.items() if not store.is_up
        ]
        reasons = (*self._standing, *down)
        return Readiness("degraded" if reasons else "ok", reasons)


@asynccontextmanager
async def open_gateway(settings: Settings, runtime: Runtime) -> AsyncIterator[DataPlane]:
    async with AsyncExitStack() as stack:
        telemetry = Telemetry.start(settings, worker=runtime.worker)
        stack.push_async_callback(asyncio.to_thread, telemetry.shutdown, _SPANS_S)
        stores = await _open_stores(settings, runtime, stack)
        rights = Rights(cache_scope=settings.cache.scope)
        authenticator = Authenticator(StoreDirectory(stores["durable"]), rights=rights)
        runtime.on_control(
            lambda change: authenticator.forget(change.key_id) if isinstance(change, KeyChanged) else None
        )
        pools = await stack.enter_async_context(_pools(settings))
        cache, standing = await _open_cache(settings, runtime, stores["cache"], stack)
        flights: AnswerFlights = Flights(join_bytes=settings.cache.max_entry_kib << 10)
        stack.push_async_callback(flights.aclose)
        limiter = await stack.enter_async_context(
            Limiter(StoreLimits(stores["durable"]), live_workers=runtime.live_workers)
        )
        policy = Policy(
            mode=settings.cache.mode,
            body_limit_bytes=settings.server.body_limit_mib << 20,
            store_deadline_s=settings.store.deadline_ms / 1000,
        )
        pipeline = Pipeline(
            authenticator=authenticator,
            admissions=Admissions(limiter),
            pools=pools,
            cache=cache,
            flights=flights,
            asking=Asking(pools=pools, cache=cache, telemetry=telemetry),
            policy=policy,
        )
        models = Models(
            authenticator=authenticator,
            pools=pools,
            store_deadline_s=policy.store_deadline_s,
            now_s=time.time(),
        )
        front = Front(
            pipeline=pipeline,
            models=models,
            health=Health(lambda: plane.readiness()),  # noqa: PLW0108 - it is made below
            telemetry=telemetry,
            request_timeout_s=settings.upstream.request_timeout_s,
        )
        if not settings.pools:
            standing = (*standing, "no pools are configured")
        plane = DataPlane(
            front=front, cache=cache, pools=pools, metrics=telemetry.metrics, stores=stores, standing=standing
        )
        telemetry.metrics.watch(
            in_flight=pools.in_flight, store_up=lambda: {role: store.is_up for role, store in stores.items()}
        )
        yield plane


async def _open_stores(settings: Settings, runtime: Runtime, stack: AsyncExitStack) -> dict[str, StoreClient]:
    """By role. One client where both roles are one store, so that a request's commands leave together."""
    deadline_s = settings.store.deadline_ms / 1000
    durable = await stack.enter_async_context(
        StoreClient.open(runtime.durable_url, deadline_s=deadline_s, name="durable store")
    )
    if runtime.cache_url == runtime.durable_url:
        return {"durable": durable, "cache": durable}
    cache = await stack.enter_async_context(
        StoreClient.open(runtime.cache_url, deadline_s=deadline_s, name="cache store")
    )
    return {"durable": durable, "cache": cache}


def _pools(settings: Settings) -> Pools:
    members = {
        model: [
            Member(
                name=member.name,
                base_url=member.url,
                upstream_model=member.model,
                revision=member.revision,
                weight=member.weight,
                api_key=read_api_key(member),
            )
            for member in pool.members
        ]
        for model, pool in settings.pools.items()
    }
    upstream = settings.upstream
    timeouts = Timeouts(
        connect_s=upstream.connect_timeout_s,
        first_byte_s=upstream.first_byte_timeout_s,
        idle_s=upstream.idle_timeout_s,
    )
    return Pools(members, backend=VllmBackend(), timeouts=timeouts)


async def _open_cache(
    settings: Settings, runtime: Runtime, store: StoreClient, stack: AsyncExitStack
) -> tuple[SemanticCache, tuple[str, ...]]:
    """The cache, and what is to be said of it in readiness: it works without an embedder, but only for equal texts."""
    embed, standing = await _open_embedder(settings)
    stack.callback(embed.close)
    spaces = Spaces(FaissIndex)
    if isinstance(embed, EmbedQueue):
        await _follow_changes(runtime, spaces, embed, stack)
    cache = SemanticCache(
        RedisEntries(store, secret=runtime.secret),
        embed,
        spaces,
        AcceptancePolicy(settings.cache.policy, settings.cache.threshold),
        secret=runtime.secret,
        ttl_s=settings.cache.ttl_s,
        semantic_deadline_s=settings.cache.semantic_deadline_ms / 1000,
        max_entry_bytes=settings.cache.max_entry_kib << 10,
    )
    return cache, standing


async def _open_embedder(settings: Settings) -> tuple[EmbedQueue | NoEmbedder, tuple[str, ...]]:
    wanted = settings.cache.embedder
    if settings.cache.mode != "semantic" or wanted.kind == "none":
        return NoEmbedder(), ()
    model = wanted.model or str(settings.model_folder)
    if wanted.kind == "onnx" and not await asyncio.to_thread(Path(model).is_dir):
        reason = f"no embedding model in {model}: exact matches only; run `echogate models prepare`"
        _log.warning("no embedding model", folder=model, remedy="echogate models prepare")
        return NoEmbedder(), (reason,)
    try:
        embedder = await asyncio.to_thread(
            open_embedder, wanted.kind, model=model, precision=wanted.precision
        )
    except ModelError as error:
        _log.error("the embedding model was refused", reason=str(error))
        return NoEmbedder(), (f"the embedding model was refused: {error}",)
    return EmbedQueue(embedder), ()


async def _follow_changes(runtime: Runtime, spaces: Spaces, embed: EmbedQueue, stack: AsyncExitStack) -> None:
    """Rebuild the index from the store's change streams and keep it up with what other workers store."""
    reader = await stack.enter_async_context(
        StoreClient.open(runtime.cache_url, silence_s=_READER_SILENCE_S, name="cache changes")
    )
    follower = Follower(reader, spaces, secret=runtime.secret, fingerprint=embed.fingerprint)
    task = asyncio.create_task(follower.run())

    async def stop() -> None:
        task.cancel()
        await asyncio.wait((task,))

    stack.push_async_callback(stop)
    try:
        async with asyncio.timeout(_CATCH_UP_S):
            await follower.caught_up.wait()
    except TimeoutError:
        _log.warning("the index is not yet rebuilt; older entries are found once it is")
