"""Says in plain sentences what a configuration will run, and what is wrong with it that its types cannot see."""

from __future__ import annotations

from collections.abc import Iterator

from ..host.bootstrap import is_loopback
from ..host.tls import server_context
from .errors import SettingsError
from .reading import (
    Settings,
    read_api_key,
    read_audit_key,
    read_credential,
    read_encrypt_keys,
    read_otel_environment,
)
from .sections import split_bind

_STORE_GONE = {
    "local": "each worker enforces its share of every limit",
    "closed": "requests of keys with limits are refused",
    "open": "nothing is limited",
}


def sentences(settings: Settings) -> Iterator[str]:
    server, cache, limits = settings.server, settings.cache, settings.limits
    workers = "1 worker" if server.workers == 1 else f"{server.workers} workers"
    scheme = {True: "https", False: "http"}
    yield f"Applications reach Echogate at {scheme[server.tls is not None]}://{server.bind}/v1, served by {workers}."
    admin = settings.admin
    yield f"Admins reach it at {scheme[admin.tls is not None]}://{admin.bind} (keys, metrics, documentation)."
    if admin.tls is not None and admin.tls.client_ca is not None:
        yield f"Admins need a client certificate that {admin.tls.client_ca} has signed."
    if not is_loopback(settings.admin.bind):
        yield "No admin key is made while admin.bind is not a loopback address; one made earlier still works."
    yield f"Its data lies in {settings.data_dir}."
    if settings.store.is_embedded:
        yield "The store is embedded: a Valkey of its own, with its data in the data folder."
    else:
        yield "The stores are the ones named by store.durable and store.cache."
    if settings.store.encrypt_keys:
        yield "What the cache store holds is sealed."
    yield from _pools(settings)
    yield from _cache(settings)
    yield f"A new key may make {limits.requests_per_s:g} requests a second, {limits.burst} at once, by default."
    yield f"While the durable store is away, {_STORE_GONE[limits.store_gone]}."
    if settings.prices and (unpriced := sorted(set(settings.pools) - set(settings.prices))):
        yield f"Budgets of money do not count {', '.join(unpriced)}: they have no `prices`."
    protocol = read_otel_environment().protocol
    if protocol is None:
        yield "No traces are sent: OTEL_EXPORTER_OTLP_ENDPOINT is not set, or tracing is switched off."
    else:
        yield f"Traces are sent by OTLP over {protocol}; a caller's traceparent becomes: {settings.telemetry.trust}."
    if cache.mode == "off":
        yield "Nothing is cached."


def problems(settings: Settings) -> list[str]:
    """What would make `serve` fail or surprise, one sentence each."""
    found = []
    for pool in settings.pools.values():
        for member in pool.members:
            try:
                read_api_key(member)
            except SettingsError as error:
                found.append(str(error))
    try:
        read_otel_environment()
    except SettingsError as error:
        found.append(str(error))
    found.extend(_embedders(settings))
    found.extend(_files(settings))
    _, data_port = split_bind(settings.server.bind)
    if data_port and settings.server.bind == settings.admin.bind:
        found.append(f"server.bind and admin.bind are both {settings.admin.bind}: give them different ports")
    return found


def _embedders(settings: Settings) -> Iterator[str]:
    own = settings.cache.embedder
    for setting, embedder in (("cache.embedder", own), ("cache.embedder.next", own.next)):
        name = None if embedder is None else embedder.api_key_env
        if name is not None and read_credential(name) is None:
            yield f"{setting}.api_key_env: the environment variable {name} is not set"


def _files(settings: Settings) -> Iterator[str]:
    try:
        if settings.server.tls is not None:
            server_context(settings.server.tls, setting="server.tls")
        if settings.admin.tls is not None:
            server_context(settings.admin.tls, setting="admin.tls")
        if settings.admin.audit_key_env is not None:
            read_audit_key(settings.admin.audit_key_env)
        read_encrypt_keys(settings.store.encrypt_keys)
    except SettingsError as error:
        yield str(error)


def _pools(settings: Settings) -> Iterator[str]:
    if not settings.pools:
        yield "No pools are configured: every request is refused with model_not_found. Name one under `pools:`."
    for model, pool in settings.pools.items():
        members = ", ".join(f"{member.name} ({member.url})" for member in pool.members)
        yield f"Model {model} is answered by {members}."


def _cache(settings: Settings) -> Iterator[str]:
    cache = settings.cache
    if cache.mode == "off":
        return
    yield f"Answers are kept for {cache.ttl_s:g} s and shared within one {cache.scope}."
    if cache.mode == "exact" or cache.embedder.kind == "none":
        yield "Only equal questions are answered from the cache."
    elif cache.embedder.kind == "onnx" and not settings.model_folder.is_dir():
        yield (
            f"Only equal questions are answered from the cache until there is a model in {settings.model_folder}: "
            "run `echogate models prepare`."
        )
    else:
        yield (
            f"Similar questions are answered from the cache by policy {cache.policy}, from a similarity of "
            f"{cache.threshold:g} on, with the embedder {cache.embedder.kind}."
        )
        if cache.audits.judge not in ("agreement", *settings.pools):
            yield (
                f"cache.audits.judge is {cache.audits.judge}, which no pool serves: audits find nothing, and nobody "
                "notices wrong hits. Name a model under `pools`, or agreement."
            )
