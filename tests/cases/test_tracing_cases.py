"""Tracing that broke the traced in other gateways: streams, odd headers, collectors that are away, secrets in spans."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
import structlog

from gateway.settings.reading import Settings
from gateway.telemetry.logs import RequestLog
from gateway.telemetry.metrics_merge import render
from gateway.telemetry.span_build import SpanBuilder
from gateway.telemetry.span_export import SpanExport
from tests.cases.speaking import chat_body, post_head, spoken, streamed
from tests.collector import Collector, attributes, collecting
from tests.gateway.otlp import black_hole, free_port
from tests.running import RunningGateway, running_gateway
from tests.scripted import CUT, HANG, Part, ScriptedUpstream, delta
from tests.valkey import eventually

ROOT = "POST /v1/chat/completions"
ANSWER: list[Part] = [delta("a"), delta("b"), delta(finish="stop"), "[DONE]"]


def _fail(*_: object) -> NoReturn:
    raise RuntimeError("inside tracing")


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    """What the gateway itself logs, besides the line for each request."""
    structlog.reset_defaults()
    with structlog.testing.capture_logs() as lines:
        yield lines


async def root_of(collector: Collector, trace_id: str) -> Any:
    await eventually(lambda: any(span.name == ROOT for span in collector.of(trace_id)))
    return next(span for span in collector.of(trace_id) if span.name == ROOT)


def seconds(span: Any) -> float:
    return float(span.end_time_unix_nano - span.start_time_unix_nano) / 1e9


class TestStreams:
    async def test_streams_of_which_half_are_left_end_every_span_once_and_log_no_fault(
        self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        async with ScriptedUpstream(words=20) as upstream, collecting(monkeypatch) as collector:
            upstream.chunk_delay_s = 0.01
            async with running_gateway(upstream) as gateway:

                async def stream(number: int) -> None:
                    async with gateway.chat_stream(f"question {number}") as reply:
                        async for _ in reply.aiter_lines():
                            if number % 2:
                                return

                await asyncio.gather(*(stream(number) for number in range(100)))
                await gateway.idle()
            await eventually(lambda: sum(span.name == ROOT for span in collector.spans) == 100)
        ids = [(span.trace_id, span.span_id) for span in collector.spans]
        assert len(ids) == len(set(ids))
        log = capfd.readouterr().err.lower()
        assert "detach" not in log
        assert "traceback" not in log

    @pytest.mark.parametrize("end", ["whole", "left", "broken"])
    async def test_the_server_span_lasts_as_long_as_the_stream_and_says_how_it_ended(
        self, monkeypatch: pytest.MonkeyPatch, end: str
    ) -> None:
        ending: dict[str, list[Part]] = {"whole": [0.5, *ANSWER], "left": [HANG], "broken": [0.5, CUT]}
        async with ScriptedUpstream() as upstream, collecting(monkeypatch) as collector:
            upstream.stream([delta("first"), *ending[end]])
            async with running_gateway(upstream) as gateway:
                async with gateway.chat_stream() as reply:
                    async for _ in reply.aiter_lines():
                        if end == "left":
                            await asyncio.sleep(0.5)
                            break
                root = await root_of(collector, reply.headers["x-trace-id"])
        facts = attributes(root)
        assert seconds(root) >= 0.5
        assert 0 < facts["echogate.time_to_first_byte_ms"] < seconds(root) * 1000
        outcome = {"whole": "ok", "left": "client_closed", "broken": "error"}[end]
        assert (facts["echogate.outcome"], root.status.code == 2) == (outcome, end == "broken")
        assert ("error.type" in facts) == (end == "broken")

    async def test_a_streams_bytes_are_the_same_traced_untraced_and_with_tracing_broken(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def body() -> bytes:
            async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
                upstream.stream(ANSWER)
                async with gateway.chat_stream() as reply:
                    return await reply.aread()

        untraced = await body()
        async with collecting(monkeypatch):
            assert await body() == untraced
            for owner, part in ((SpanExport, "put"), (SpanBuilder, "of_notes"), (RequestLog, "write")):
                with monkeypatch.context() as broken:
                    broken.setattr(owner, part, _fail)
                    assert await body() == untraced

    async def test_header_metric_span_and_log_agree_on_a_streamed_hit(
        self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        async with ScriptedUpstream() as upstream, collecting(monkeypatch) as collector:
            async with running_gateway(upstream) as gateway:
                await streamed(gateway)
                await gateway.idle()
                reply, _ = await streamed(gateway)
                page = render(gateway.plane.metrics.snapshot(), as_openmetrics=False).decode()
            root = await root_of(collector, reply.headers["x-trace-id"])
        line = next(
            told
            for told in map(json.loads, capfd.readouterr().err.splitlines())
            if told.get("trace_id") == reply.headers["x-trace-id"]
        )
        assert reply.headers["x-cache"] == "HIT-EXACT"
        assert attributes(root)["echogate.cache.outcome"] == "HIT-EXACT"
        assert line["cache"] == "HIT-EXACT"
        assert (
            sum(
                'cache="hit-exact"' in one and one.startswith("echogate_requests_total")
                for one in page.splitlines()
            )
            == 1
        )

    async def test_tokens_are_counted_as_the_server_counted_them_once_for_the_server_once_for_the_cache(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        usage = delta() | {
            "choices": [],
            "usage": {"prompt_tokens": 31, "completion_tokens": 17, "total_tokens": 48},
        }
        async with ScriptedUpstream() as upstream, collecting(monkeypatch) as collector:
            upstream.stream([*ANSWER[:-1], usage, "[DONE]"])
            async with running_gateway(upstream) as gateway:
                for _ in range(4):
                    reply, _ = await streamed(gateway)
                    await gateway.idle()
                page = render(gateway.plane.metrics.snapshot(), as_openmetrics=False).decode()
            facts = attributes(await root_of(collector, reply.headers["x-trace-id"]))
        assert (facts["gen_ai.usage.input_tokens"], facts["gen_ai.usage.output_tokens"]) == (31, 17)
        told = [line for line in page.splitlines() if line.startswith("echogate_tokens_total{")]
        expected = {
            ("input", "backend"): 31,
            ("output", "backend"): 17,
            ("input", "cache"): 93,
            ("output", "cache"): 51,
        }
        for (direction, source), count in expected.items():
            (line,) = (one for one in told if f'"{direction}"' in one and f'"{source}"' in one)
            assert (direction, source, float(line.split()[-1])) == (direction, source, count)


class TestIncoming:
    VALID = f"00-{'a' * 32}-{'b' * 16}-01"

    async def check(
        self, gateway: RunningGateway, upstream: ScriptedUpstream, headers: list[tuple[str, str]]
    ) -> None:
        """A request with these headers is answered, in a trace of its own, and the server gets what is valid."""
        body = chat_body(f"asked with {len(upstream.calls)}")
        head = post_head(gateway, connection="close", content_length=str(len(body)))
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers).encode("latin-1")
        status, told, _ = await spoken(gateway, head.removesuffix(b"\r\n") + lines + b"\r\n" + body)
        assert (headers, status) == (headers, 200)
        sent = upstream.calls[-1].headers
        version, trace_id, span_id, flags = sent["traceparent"].split("-")
        assert (version, trace_id, flags) == ("00", told["x-trace-id"], "01")
        assert (len(trace_id), len(span_id)) == (32, 16)
        assert trace_id != "a" * 32
        assert int(trace_id, 16)
        assert "tracestate" not in sent
        assert "baggage" not in sent

    async def test_whatever_a_caller_sends_as_its_trace_is_answered_and_nothing_invalid_goes_on(self) -> None:
        a, b = "a" * 32, "b" * 16
        bad = [
            "x",
            "",
            f"00-{'0' * 32}-{b}-01",
            f"00-{a}-{'0' * 16}-01",
            f"ff-{a}-{b}-01",
            f"00-{a}-{b}",
            f"00-{a}-{b}-01-x",
        ]
        bad += [
            self.VALID.upper(),
            "00-" + "é" * 32 + f"-{b}-01",
            f"00-{a}-{b}-0g",
            "x" * 10_000,
            f" 00 -{a}-{b}-01",
        ]
        state = ",".join(f"k{number}=v" for number in range(600))
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            for value in bad:
                await self.check(gateway, upstream, [("traceparent", value), ("tracestate", "k=v")])
            await self.check(gateway, upstream, [("traceparent", self.VALID), ("traceparent", self.VALID)])
            await self.check(gateway, upstream, [("tracestate", state)])
            await self.check(gateway, upstream, [("baggage", "k=" + "v" * 60_000)])

    async def test_a_state_that_is_too_long_is_dropped_and_the_trace_goes_on(self) -> None:
        state = ",".join(f"k{number}=v" for number in range(600))
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            reply = await gateway.chat(headers={"traceparent": self.VALID, "tracestate": state})
            assert reply.headers["x-trace-id"] == "a" * 32
            assert "tracestate" not in upstream.calls[0].headers


class TestCollectorsThatAreAway:
    @pytest.mark.parametrize("how", ["refuses", "takes-and-never-answers"])
    async def test_requests_go_on_and_one_line_says_so(
        self, how: str, monkeypatch: pytest.MonkeyPatch, lines: list[Any]
    ) -> None:
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "5")
        monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "512")
        monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "16")
        with black_hole() as hole:
            monkeypatch.setenv(
                "OTEL_EXPORTER_OTLP_ENDPOINT", hole if how != "refuses" else f"http://127.0.0.1:{free_port()}"
            )
            async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
                for _ in range(300):
                    assert (await gateway.chat()).status_code == 200
                page = render(gateway.plane.metrics.snapshot(), as_openmetrics=False).decode()
        dropped = sum(
            float(line.split()[-1])
            for line in page.splitlines()
            if line.startswith("echogate_spans_dropped_total{")
        )
        if how != "refuses":
            assert dropped > 300, "what waits is bounded"
        assert sum("collector did not take spans" in line["event"] for line in lines) <= 1


async def test_retries_refusals_and_faults_put_no_secret_and_no_word_into_spans(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], lines: list[Any]
) -> None:
    prompt, answer, user, credential = words = [f"secret{secrets.token_hex(8)}" for _ in range(4)]
    monkeypatch.setenv("SERVERS_KEY", credential)
    async with ScriptedUpstream() as one, ScriptedUpstream() as other, collecting(monkeypatch) as collector:
        members = [
            {"url": each.base_url, "model": "m", "revision": "r", "api_key_env": "SERVERS_KEY"}
            for each in (one, other)
        ]
        for upstream in (one, other):
            upstream.reply_json({"error": {"message": f"{prompt} {credential}"}}, status=500)
            upstream.stream([delta(answer), CUT])
        settings = {"pools": {"m1": members}, "cache": {"embedder": {"kind": "none"}}}
        async with running_gateway(settings=Settings.model_validate(settings)) as gateway:
            await gateway.chat(prompt, user=user)  # both members fail
            await streamed(gateway, prompt, user=user)
            for upstream in (one, other):
                upstream.unscript()
            limited = await gateway.new_key(rate_per_s=0.01, burst=1)
            assert [(await gateway.chat(prompt, key=limited)).status_code for _ in range(2)][-1] == 429
            await gateway.chat(prompt, headers={"x-api-key": f"eg-{user}-{user}"})
            monkeypatch.setattr(gateway.plane.cache, "store", None)  # a fault of ours
            for upstream in (one, other):
                upstream.unscript()  # which member was asked for what before is chance
                upstream.stream([delta(answer), *ANSWER])
            await streamed(gateway, f"{prompt}?")
            await gateway.idle()
            key = gateway.key
            page = render(gateway.plane.metrics.snapshot(), as_openmetrics=False).decode()
        await eventually(lambda: sum(span.name == ROOT for span in collector.spans) == 6)
    assert credential in str([call.headers for call in (*one.calls, *other.calls)])
    assert [line["event"] for line in lines].count("unexpected") == 1
    told = " ".join(str(span) for span in collector.spans) + page + capfd.readouterr().err + str(lines)
    assert [word for word in (*words, key, key.split("-")[2]) if word in told] == []
