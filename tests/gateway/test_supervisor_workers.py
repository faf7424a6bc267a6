"""Four workers under a real supervisor: what is shared, what adds up, and what the death of one costs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest

from .otlp import Collector, http_collector
from .serving import ROOT, Serving, eventually, is_alive, serving


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with http_collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def four(collector: Collector) -> Iterator[Serving]:
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "20"}
    with serving(workers=4, factory="traced_gateway:open_traced", environment=environment) as running:
        yield running


def test_all_workers_serve_and_know_how_many_they_are(four: Serving) -> None:
    facts = four.facts_of_all(4)
    eventually(lambda: all(one["live"] == 4 for one in four.facts_of_all(4).values()))
    assert len({one["secret"] for one in facts.values()}) == 1, "one deployment secret"
    assert four.readiness() == "ok"


def test_there_is_one_store_and_one_admin_key(four: Serving) -> None:
    assert sum("valkey" in command for command in four.children().values()) == 1
    key = four.folder / "admin.key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.read_text().strip() not in four.log


def test_metrics_and_spans_of_all_workers_add_up(four: Serving, collector: Collector) -> None:
    """Exporters are made in each worker, after it was spawned: none is lost, and each is an instance."""
    before, spans_before = four.metric("echogate_requests_total"), len(collector.spans)
    pids = {four.facts()["pid"] for _ in range(40)}
    assert four.metric("echogate_requests_total") == before + 40
    eventually(lambda: len(collector.spans) >= spans_before + 40)
    instances = {one.resource["service.instance.id"] for one in collector.spans[spans_before:]}
    assert len(instances) == len(pids)


def test_a_killed_worker_is_replaced_and_no_counter_goes_down(four: Serving) -> None:
    before = four.metric("echogate_requests_total")
    restarts = four.metric("echogate_worker_restarts_total")
    victim = four.facts()["pid"]
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: four.metric("echogate_worker_restarts_total") > restarts)
    assert four.metric("echogate_requests_total") >= before
    eventually(lambda: four.metric("echogate_workers") == 4)
    assert victim not in four.facts_of_all(4)


def test_a_change_of_a_key_is_in_force_in_all_workers_when_the_admin_plane_answers(four: Serving) -> None:
    four.facts_of_all(4)
    eventually(lambda: four.metric("echogate_workers") == 4)
    with httpx.Client(base_url=four.admin, headers=four.admin_headers) as admin:
        made = admin.post("/admin/keys", json={"tenant": "t"}).raise_for_status().json()
        revoked = admin.delete(f"/admin/keys/{made['id']}").raise_for_status().json()
    assert revoked["change"]["not_acknowledged_by"] == []
    assert all(made["id"] in facts["changes"] for facts in four.facts_of_all(4).values())


def test_the_store_is_started_again_when_it_dies_and_has_lost_nothing(four: Serving) -> None:
    with httpx.Client(base_url=four.admin, headers=four.admin_headers) as admin:
        made = admin.post("/admin/keys", json={"tenant": "t"}).raise_for_status().json()
        (store,) = (pid for pid, command in four.children().items() if "valkey" in command)
        os.kill(store, signal.SIGKILL)
        eventually(lambda: not is_alive(store))
        assert four.facts()["pid"], "requests go on meanwhile"
        eventually(lambda: admin.get("/admin/keys").status_code == 200)
        assert made["id"] in [key["id"] for key in admin.get("/admin/keys").json()["data"]]


def test_a_second_serve_on_the_same_folder_says_who_has_it_and_ends(four: Serving) -> None:
    second = subprocess.run(
        [sys.executable, "-m", "gateway", "serve", "--config", four.config],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert second.returncode == 1
    assert f"is in use by process {four.process.pid}" in second.stderr
    assert "Traceback" not in second.stderr
    assert four.facts()["pid"]


def test_liveness_and_readiness_answer_head_like_get(four: Serving) -> None:
    for path in ("/health/live", "/health/ready", "/metrics"):
        reply = httpx.head(f"{four.admin}{path}")
        assert (reply.status_code, reply.content) == (200, b"")
