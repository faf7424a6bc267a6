"""Puts the admin plane together: a FastAPI application around what the supervisor can do.

The API needs an admin key. Metrics, health and documentation do not: the plane's own address is their fence.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fastapi import FastAPI

from auth import Directory, Limiter, Limits, Rights

from ..evidence.desk import CacheTold, Wish
from ..host.control import ControlRecord
from ..host.runtime import Readiness
from ..pools.host import HostPools
from ..store.client import StoreClient
from ..telemetry.metrics_merge import Snapshot
from ..usage.store import UsageStore
from ..version import VERSION
from .acts import Acts
from .admin_keys import admin_keys_router
from .audit import audit_router
from .auditing import Auditor
from .backends import PoolActs, backends_router
from .body_limit import BodyLimit
from .cache import cache_router
from .cache_entries import entries_router
from .cache_litellm import litellm_cache_router
from .document import describe
from .events import events_router
from .idempotency import Once
from .index import index_router
from .judges import judges_router
from .keys import keys_router
from .limits import limits_router
from .litellm import litellm_router
from .open_pages import add_open_pages
from .replies import add_error_replies
from .services import services_router
from .stored_keys import AdminKeys
from .tenants import tenants_router
from .transfer import transfer_router
from .usage import usage_router


@dataclass(frozen=True, slots=True)
class AdminContext:
    """What the plane works on. `rights` and `limits` are those of keys of which nothing else is said.

    `publish` tells all workers of a change: its id (None: the store did not take it), and the workers of this host
    that have not acknowledged it. `ask_cache` asks a worker of this host (None: nobody answered in time).
    `on_failed_login` is told the address of who had no right key. `shows_texts`: owners may see what was asked.
    """

    directory: Directory
    admin_keys: AdminKeys
    auditor: Auditor
    once: Once
    limiter: Limiter
    usage: UsageStore
    rights: Rights
    default_limits: Limits
    publish: Callable[[ControlRecord], Awaitable[tuple[str | None, list[int]]]]
    on_failed_login: Callable[[str], None]
    metrics: Callable[[], Awaitable[Snapshot]]
    readiness: Callable[[], Awaitable[Readiness]]
    pools: HostPools
    store: StoreClient
    ask_cache: Callable[[Wish], Awaitable[CacheTold | None]]
    events_secret: bytes | None
    shows_texts: bool


def create_app(context: AdminContext) -> FastAPI:
    app = FastAPI(
        title="Echogate",
        version=VERSION,
        summary="A semantic-caching gateway for LLMs, OpenAI-compatible.",
        docs_url=None,
        redoc_url=None,
        # Relative, so that the pages work behind a proxy that strips a path prefix.
        servers=[{"url": ".", "description": "admin plane"}],
    )
    app.add_middleware(BodyLimit)
    acts = Acts(context)
    app.include_router(tenants_router(context, acts))
    app.include_router(services_router(context, acts))
    app.include_router(keys_router(context, acts))
    app.include_router(litellm_router(context, acts))
    app.include_router(limits_router(context))
    app.include_router(usage_router(context))
    app.include_router(audit_router(context))
    app.include_router(cache_router(context))
    app.include_router(entries_router(context))
    app.include_router(litellm_cache_router(context))
    app.include_router(index_router(context))
    app.include_router(judges_router(context))
    app.include_router(admin_keys_router(context))
    app.include_router(transfer_router(context, acts))
    pool_acts = PoolActs(context)
    app.include_router(backends_router(context, pool_acts))
    app.include_router(events_router(context, pool_acts))
    add_open_pages(app, metrics=context.metrics, readiness=context.readiness)
    add_error_replies(app)
    describe(app)
    return app
