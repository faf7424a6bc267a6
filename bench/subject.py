"""The gateway under test, as an operator would run it: `echogate serve` with one worker and the embedded store."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from gateway.host.data_folder import DataFolder, Holder

from .messages import MODEL
from .processes import BenchFailed, descendants, environment, running, wait_until

# Spans leave this long after they ended; whoever measures waits for it.
EXPORT_DELAY_S = 0.5
SAMPLED_SHARE = 0.1

_STORE = "valkey-server"


@dataclass(frozen=True)
class Subject:
    """`pids` are the supervisor and its worker, `store_pids` the store they started."""

    port: int
    key: str
    admin: httpx.Client
    pids: list[int]
    store_pids: list[int]


@contextmanager
def gateway(
    folder: Path,
    *,
    model: Path,
    upstream_port: int,
    collector_port: int | None = None,
    cache: Mapping[str, Any] | None = None,
) -> Iterator[Subject]:
    """Serving and ready, for as long as the block runs. `cache` are settings of that section; without a collector
    nothing is traced."""
    data = folder / "data"
    settings = {
        "server": {"bind": "127.0.0.1:0", "workers": 1},
        "admin": {"bind": "127.0.0.1:0"},
        "data_dir": str(data),
        "pools": {MODEL: [{"url": f"http://127.0.0.1:{upstream_port}", "name": "fast", "revision": "r1"}]},
        # Deadlines that a busy machine does not reach: what is measured is the work, not giving it up.
        "store": {"deadline_ms": 2_000},
        "cache": {
            "embedder": {"model": str(model)},
            "semantic_deadline_ms": 5_000,
            "audits": {
                "served_share": 0
            },  # a hit that is asked of a backend too would disturb what is measured
            **(cache or {}),
        },
        "limits": {"requests_per_s": 5_000, "burst": 1_000_000_000},
    }
    config = folder / "echogate.yaml"
    config.write_text(json.dumps(settings))  # which is YAML too
    telemetry = {"OTEL_SDK_DISABLED": "true"} if collector_port is None else _traced_to(collector_port)
    command = ("-m", "gateway", "serve", "--config", str(config))
    log = folder / "gateway.log"
    with running(*command, env=environment(**telemetry), log=log) as process:

        def holder() -> Holder | None:
            if process.poll() is not None:
                raise BenchFailed(f"the gateway did not start: {log.read_text()[-1000:]}")
            return DataFolder(data).holder()

        held: Holder = wait_until(holder, what="the gateway says where it listens")
        base_url = f"http://{held.data_plane}"
        wait_until(lambda: _is_ready(base_url), what="the gateway is ready")
        tree = descendants(process.pid)
        with _admin(f"http://{held.admin}", DataFolder(data)) as admin:
            yield Subject(
                port=int(held.data_plane.rpartition(":")[2]),
                key=_new_key(admin),
                admin=admin,
                pids=[pid for pid, name in tree.items() if name != _STORE],
                store_pids=[pid for pid, name in tree.items() if name == _STORE],
            )


def _traced_to(collector_port: int) -> dict[str, str]:
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector_port}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": str(SAMPLED_SHARE),
        "OTEL_BSP_SCHEDULE_DELAY": str(round(EXPORT_DELAY_S * 1000)),
    }


def _is_ready(base_url: str) -> bool:
    try:
        reply = httpx.get(f"{base_url}/health/ready", trust_env=False)
    except httpx.TransportError:
        return False
    return reply.status_code == 200 and reply.json()["status"] == "ok"


def _admin(url: str, folder: DataFolder) -> httpx.Client:
    return httpx.Client(
        base_url=url, headers={"authorization": f"Bearer {folder.read_admin_key()}"}, trust_env=False
    )


def _new_key(admin: httpx.Client) -> str:
    return str(admin.post("/admin/keys", json={"tenant": "bench"}).raise_for_status().json()["key"])
