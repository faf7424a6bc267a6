"""Puts a worker's data plane together from the leaves and the settings, and takes it apart again in reverse."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import structlog

from auth import Authenticator, LastUsed, Limiter, Rights, StoreDirectory, StoreLimits
from backends import AddressRule, Pools, VllmBackend
from cache import SemanticCache

from .admission import Admissions
from .asking import Asking
from .callers import Callers
from .data.cors import Cors
from .data.embeddings import Embeddings
from .data.endpoints import ENDPOINTS, TOKENS
from .data.feedback import FeedbackDesk
from .data.health import Health
from .data.me import Me
from .data.models import Models
from .data.passthrough import PassThrough
from .data.wire import Delivery
from .evidence.caching import open_caching
from .evidence.index_life import IndexMetrics
from .evidence.keeping import SealMetrics
from .evidence.numbers import EvidenceMetrics
from .flight import Flights
from .front import Front
from .host.control import ControlRecord, KeyChanged, TenantChanged
from .host.runtime import Asgi, Readiness, Runtime
from .ops.desk import OpsDesk
from .passage import Passage
from .pipeline import Pipeline, Policy
from .pools.effective import specs_of
from .pools.numbers import PoolMetrics
from .relay import AnswerFlights
from .routing import Routing
from .settings.reading import Settings
from .settings.sections import CorsSettings
from .store.client import StoreClient
from .telemetry.metrics import Metrics
from .telemetry.telemetry import Telemetry
from .usage.prices import prices_of
from .usage.recorder import UsageRecorder
from .usage.store import UsageStore

_log = structlog.get_logger("gateway.app")

# How long a stop waits for spans to leave.
_SPANS_S = 5.0


class DataPlane:
    """What the worker's shell serves and asks."""

    def __init__(
        self,
        *,
        front: Front,
        cache: SemanticCache,
        routing: Routing,
        limiter: Limiter,
        metrics: Metrics,
        stores: dict[str, StoreClient],
        standing: tuple[str, ...],
    ) -> None:
        self._front = front
        self.cache = cache
        self.pools = routing.pools
        self._routing = routing
        self._limiter = limiter
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
        limits = self._limiter.state
        alone = (
            () if limits.is_shared else (f"limits are not shared while their store is away: {limits.policy}",)
        )
        unserved = [f"no usable member serves the model {model!r}" for model in self._routing.unusable()]
        reasons = (*self._standing, *down, *alone, *unserved)
        return Readiness("degraded" if reasons else "ok", reasons)


@asynccontextmanager
async def open_gateway(settings: Settings, runtime: Runtime) -> AsyncIterator[DataPlane]:
    async with AsyncExitStack() as stack:
        telemetry = Telemetry.start(settings, worker=runtime.worker)
        stack.push_async_callback(asyncio.to_thread, telemetry.shutdown, _SPANS_S)
        stack.callback(telemetry.close_log)
        stores = await _open_stores(settings, runtime, stack)
        callers = await _open_callers(settings, runtime, stores["durable"], stack)
        routing = await _open_pools(settings, runtime, stack)
        pools = routing.pools
        caching = await open_caching(settings, runtime, stores, pools, stack)
        cache, standing = caching.cache, caching.standing
        runtime.offer_cache(OpsDesk(caching, pools, secret=runtime.secret))
        flights: AnswerFlights = Flights(join_bytes=settings.cache.max_entry_kib << 10)
        stack.push_async_callback(flights.aclose)
        limiter = await stack.enter_async_context(
            Limiter(
                StoreLimits(stores["durable"]),
                live_workers=runtime.live_workers,
                policy=settings.limits.store_gone,
            )
        )
        usage = UsageStore(stores["durable"])
        policy = Policy(
            body_limit_bytes=settings.server.body_limit_mib << 20,
            store_deadline_s=settings.store.deadline_ms / 1000,
        )
        admissions = Admissions(
            limiter,
            usage=await stack.enter_async_context(UsageRecorder.open(usage)),
            prices=prices_of(settings),
            charges_hits=settings.limits.charge_hits,
        )
        pipeline = Pipeline(
            callers=callers,
            admissions=admissions,
            routing=routing,
            cache=cache,
            policies=caching.policies,
            witness=caching.witness,
            flights=flights,
            asking=Asking(pools=pools, cache=cache, claims=caching.claims, telemetry=telemetry),
            policy=policy,
        )
        passage = Passage(
            callers=callers,
            admissions=admissions,
            routing=routing,
            pools=pools,
            body_limit_bytes=policy.body_limit_bytes,
            store_deadline_s=policy.store_deadline_s,
        )
        embeddings = Embeddings(
            passage, cache=cache, policies=caching.policies, store_deadline_s=policy.store_deadline_s
        )
        stack.push_async_callback(embeddings.aclose)
        passed_on = {path: ENDPOINTS[path] for path in settings.server.pass_through} | dict(TOKENS)
        front = Front(
            pipeline=pipeline,
            embeddings=embeddings,
            passing=PassThrough(passage),
            passed_on=passed_on,
            models=Models(callers=callers, pools=pools, now_s=time.time()),
            me=Me(callers=callers, pools=pools, limiter=limiter, usage=usage),
            feedback=FeedbackDesk(callers=callers, decisions=caching.decisions, cache=cache),
            health=Health(lambda: plane.readiness()),  # noqa: PLW0108 - it is made below
            telemetry=telemetry,
            longest_request_s=lambda: routing.longest_request_s,
            cors=_cors(settings.server.cors),
            delivery=Delivery(settings.server.compression, settings.server.stream_keep_alive_s),
        )
        if not settings.pools:
            standing = (*standing, "no pools are configured")
        plane = DataPlane(
            front=front,
            cache=cache,
            routing=routing,
            limiter=limiter,
            metrics=telemetry.metrics,
            stores=stores,
            standing=standing,
        )
        telemetry.metrics.watch(
            in_flight=pools.in_flight,
            store_up=lambda: {role: store.is_up for role, store in stores.items()},
            limits_shared=lambda: limiter.state.is_shared,
            serves=routing.serves,
        )
        PoolMetrics(pools, telemetry.metrics.registry)
        IndexMetrics(caching.index, telemetry.metrics.registry, worker=runtime.worker)
        SealMetrics(caching.keeping.seal, telemetry.metrics.registry)
        EvidenceMetrics(caching.audits, telemetry.metrics.registry)
        yield plane


def _cors(settings: CorsSettings | None) -> Cors:
    if settings is None:
        return Cors()
    return Cors(settings.origins, has_credentials=settings.credentials, max_age_s=settings.max_age_s)


async def _open_callers(
    settings: Settings, runtime: Runtime, store: StoreClient, stack: AsyncExitStack
) -> Callers:
    directory = StoreDirectory(store)
    used = await stack.enter_async_context(LastUsed.open(directory))
    authenticator = Authenticator(
        directory, rights=Rights(cache_scope=settings.cache.scope), on_use=used.note
    )

    def forget(change: ControlRecord) -> None:
        match change:
            case KeyChanged(key_id):
                authenticator.forget(key_id)
            case TenantChanged(tenant):
                authenticator.forget_tenant(tenant)

    runtime.on_control(forget)
    return Callers(
        authenticator,
        store_deadline_s=settings.store.deadline_ms / 1000,
        on_failed_login=runtime.on_failed_login,
    )


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


async def _open_pools(settings: Settings, runtime: Runtime, stack: AsyncExitStack) -> Routing:
    specs = specs_of(settings) if runtime.specs is None else runtime.specs
    addresses = AddressRule(allowed=settings.upstream.allow_networks)
    pools = await stack.enter_async_context(
        Pools(
            {model: spec.pool for model, spec in specs.items()},
            backend=VllmBackend(addresses=addresses),
            live_workers=runtime.live_workers,
        )
    )
    routing = Routing(pools, specs, secret=runtime.secret)
    runtime.offer_pools(routing)
    return routing
