"""Opens the cache of a worker: its index kept up from the store, its evidence gathered behind the path, its modes."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import structlog
from redis.exceptions import RedisError

from backends import Pools
from cache import (
    AgreementJudge,
    Audits,
    Books,
    Claims,
    EmbedQueue,
    Judge,
    ModelError,
    NoEmbedder,
    Plan,
    RedisEntries,
    Sampling,
    SemanticCache,
    Spaces,
)

from ..host.control import CacheModeChanged, ControlRecord, JudgeMeasured
from ..host.runtime import Runtime
from ..settings.reading import Settings
from ..store.client import StoreClient
from ..usage.prices import prices_of
from .background import in_background
from .decisions import Decisions
from .embedding import opened_embedder
from .index_life import IndexLife, open_index
from .judges import Judges, read_judges
from .judging import Asker, ModelJudge, ServedAudits, Spending
from .keeping import Keeping, keeping_of, open_entries
from .modes import read_modes
from .old_versions import OldVersions
from .policy import CachePolicies
from .tallies import Tallies
from .witness import Witness

_log = structlog.get_logger("gateway.evidence.caching")

# How often a namespace is judged anew at most: it takes milliseconds of a thread, and a ledger of up to a megabyte.
_SETTLE_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class Caching:
    """`standing` is what readiness is to say of it: it works without an embedder, but only for equal texts."""

    cache: SemanticCache
    policies: CachePolicies
    audits: Audits
    witness: Witness
    decisions: Decisions
    tallies: Tallies
    judges: Judges
    claims: Claims
    keeping: Keeping
    index: IndexLife
    standing: tuple[str, ...]


async def open_caching(
    settings: Settings, runtime: Runtime, stores: dict[str, StoreClient], pools: Pools, stack: AsyncExitStack
) -> Caching:
    entries = open_entries(settings, stores["cache"], secret=runtime.secret)
    policies = await _open_policies(settings, runtime, stores["durable"])
    embed, standing = await _open_embedder(settings, policies)
    stack.callback(embed.close)
    wanted = settings.cache.index
    spaces = Spaces(Plan(storage=wanted.storage, recall=wanted.recall), most_bytes=wanted.memory_mib << 20)
    stack.callback(spaces.close)
    index = await open_index(settings, runtime, stores["cache"], spaces, embed, entries, stack)
    asker = Asker(pools, Spending(settings.cache.audits.calls_per_hour))
    judges = await _open_judges(runtime, stores["durable"])
    audits = await _open_audits(
        settings, runtime, stores["durable"], policies, judges, entries, embed, asker, stack
    )
    judges.on_change = audits.books.revisit
    cache = SemanticCache(
        entries,
        embed,
        spaces,
        audits,
        secret=runtime.secret,
        ttl_s=settings.cache.ttl_s,
        semantic_deadline_s=settings.cache.semantic_deadline_ms / 1000,
        max_entry_bytes=settings.cache.max_entry_kib << 10,
    )
    decisions = Decisions(
        stores["cache"], cache, secret=runtime.secret, kept_s=settings.cache.decisions_kept_s
    )
    in_background(decisions.run, stack)
    tallies = Tallies(stores["cache"], secret=runtime.secret, prices=prices_of(settings))
    in_background(tallies.run, stack)
    served = ServedAudits(asker, cache, audits, share=settings.cache.audits.served_share, rng=_dice())
    in_background(served.run, stack)
    witness = Witness(served, decisions, tallies)
    lease_s = settings.cache.claim_ms / 1000
    keeping = keeping_of(entries, embed, settings, secret=runtime.secret)
    _let_old_versions_go(settings, runtime, stores["cache"], pools, keeping, stack)
    claims = Claims(stores["cache"], entries, secret=runtime.secret, lease_s=lease_s)
    return Caching(
        cache, policies, audits, witness, decisions, tallies, judges, claims, keeping, index, standing
    )


def _let_old_versions_go(
    settings: Settings,
    runtime: Runtime,
    store: StoreClient,
    pools: Pools,
    keeping: Keeping,
    stack: AsyncExitStack,
) -> None:
    kept_s = settings.cache.old_versions_kept_s
    if runtime.worker != 0 or kept_s is None:
        return

    def serving() -> set[str]:
        return {f"{each.model}@{each.revision}" for each in pools.members()}

    in_background(OldVersions(store, keeping.inventory, serving=serving, kept_s=kept_s).run, stack)


async def _open_audits(
    settings: Settings,
    runtime: Runtime,
    store: StoreClient,
    policies: CachePolicies,
    judges: Judges,
    entries: RedisEntries,
    embed: EmbedQueue | NoEmbedder,
    asker: Asker,
    stack: AsyncExitStack,
) -> Audits:
    wanted = settings.cache.audits
    judge: Judge = AgreementJudge(embed) if wanted.judge == "agreement" else ModelJudge(asker, wanted.judge)
    books = Books(
        store,
        secret=runtime.secret,
        rules=policies.rules,
        measured=judges.of,
        settle_every_s=_SETTLE_EVERY_S,
        server_id=lambda: store.state.server_id,
    )
    sampling = Sampling(wanted.shadow_share, wanted.per_minute)
    audits = Audits(books, entries, judge, sampling=sampling, rng=_dice())
    try:
        await books.catch_up()
    except (OSError, RedisError):
        _log.warning("what was reported wrong is not known until the durable store answers")
    for work in (books.run, audits.run):
        in_background(work, stack)
    return audits


def _dice() -> random.Random:
    return random.Random()  # noqa: S311 - it decides what is looked at, not who may do what


async def _open_policies(settings: Settings, runtime: Runtime, store: StoreClient) -> CachePolicies:
    policies = CachePolicies(settings.cache)

    def follow(change: ControlRecord) -> None:
        if isinstance(change, CacheModeChanged):
            policies.switch(change.tenant, change.namespace, change.mode)

    runtime.on_control(follow)
    try:
        policies.switch_all(await read_modes(store))
    except (OSError, RedisError):
        _log.warning("cache modes are as configured: the durable store does not tell what admins switched")
    return policies


async def _open_judges(runtime: Runtime, store: StoreClient) -> Judges:
    judges = Judges()

    def follow(change: ControlRecord) -> None:
        if isinstance(change, JudgeMeasured):
            judges.take(change.judge, change.rates)

    runtime.on_control(follow)
    try:
        judges.take_all(await read_judges(store))
    except (OSError, RedisError):
        _log.warning("F is uncorrected: the durable store does not tell how judges were measured")
    return judges


async def _open_embedder(
    settings: Settings, policies: CachePolicies
) -> tuple[EmbedQueue | NoEmbedder, tuple[str, ...]]:
    wanted = settings.cache.embedder
    if not policies.may_be_similar or wanted.kind == "none":
        return NoEmbedder(), ()
    model = wanted.model or str(settings.model_folder)
    if wanted.kind == "onnx" and not await asyncio.to_thread(Path(model).is_dir):
        reason = f"no embedding model in {model}: exact matches only; run `echogate models prepare`"
        _log.warning("no embedding model", folder=model, remedy="echogate models prepare")
        return NoEmbedder(), (reason,)
    try:
        embedder = await asyncio.to_thread(opened_embedder, settings, wanted)
    except ModelError as error:
        _log.error("the embedding model was refused", reason=str(error))
        return NoEmbedder(), (f"the embedding model was refused: {error}",)
    return EmbedQueue(embedder), ()
