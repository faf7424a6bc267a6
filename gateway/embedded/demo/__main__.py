"""The demo's story: start the parts, take the tour, show a trace and how to go on by hand, serve until Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from textwrap import shorten

from ..child import ChildError
from .parts import MODEL, Parts, Starter, end_of_any
from .tour import ASKED, Seen, TourError, problems, walk
from .trace_receiver import TraceReceiver
from .trace_tree import tree

_TRACE_S = 10.0
_SHOWN_STEP = 3  # the near-opposite: the one request that passes through every part
_ITS_SPANS = ("POST /v1/chat/completions", "cache.search", f"chat {MODEL}", "cache.store")
_INTERRUPTED = 130  # as shells have it


def main() -> None:
    options = _options()
    try:
        sys.exit(asyncio.run(_until_interrupted(options)))
    except (ChildError, TourError, OSError) as error:
        sys.exit(f"error: {error}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m gateway.embedded.demo", description=__doc__)
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=Path(".echogate"),
        help="keeps models, store and logs (default: .echogate)",
    )
    parser.add_argument("--port", type=int, default=0, help="of the gateway (default: a free one)")
    parser.add_argument(
        "--once", action="store_true", help="end after the tour; the exit status tells how it went"
    )
    return parser.parse_args()


async def _until_interrupted(options: argparse.Namespace) -> int:
    """The exit status. The first signal ends the demo in order, which takes seconds at most; others change nothing."""
    work = asyncio.create_task(_demo(options), name="demo")
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, work.cancel)
    try:
        return await work
    except asyncio.CancelledError:
        print("\nstopped", flush=True)
        return _INTERRUPTED


async def _demo(options: argparse.Namespace) -> int:
    async with AsyncExitStack() as stack:
        receiver = stack.enter_context(TraceReceiver())
        _say("Starting")
        folder = options.data_dir.resolve()
        starter = Starter(folder, stack, say=_say, port=options.port, collector=receiver.endpoint)
        parts = await starter.start()
        wrong = await _tour(parts, receiver)
        _say_how_to_go_on(parts)
        for problem in wrong:
            print(f"error: {problem}", file=sys.stderr, flush=True)
        if not wrong:
            _say("Every step came out as named.")
        if not options.once:
            _say(f"Serving until Ctrl-C. Logs are in {folder / 'logs'}.")
            await _serve(parts)
        return 1 if wrong else 0


async def _serve(parts: Parts) -> None:
    with suppress(asyncio.CancelledError):  # Ctrl-C is how this is meant to end
        await end_of_any(parts.children)


async def _tour(parts: Parts, receiver: TraceReceiver) -> list[str]:
    """Take it and show it; what did not come out as named."""
    _say(f"\nThe tour, by the openai SDK with base_url={parts.url}/v1")
    seen: list[Seen] = []
    async for one in walk(f"{parts.url}/v1", parts.key, MODEL):
        seen.append(one)
        _show(len(seen), one, original=seen[0])
    shown = seen[_SHOWN_STEP]
    spans = await receiver.trace(shown.trace_id, with_spans=_ITS_SPANS, within_s=_TRACE_S)
    _say(f"\nThe trace of step {_SHOWN_STEP + 1}, as a collector received it ({shown.trace_id})")
    for line in tree(spans):
        _say(f"  {line}")
    absent = set(_ITS_SPANS) - {span.name for span in spans}
    return [*problems(seen), *(f"the trace lacks the span {name}" for name in sorted(absent))]


def _show(number: int, seen: Seen, *, original: Seen) -> None:
    facts = [f"{seen.outcome:<12} {seen.took_s * 1e3:8.1f} ms"]
    if seen.is_hit:
        saved_s = original.took_s - seen.took_s
        facts.append(f"{saved_s * 1e3:.1f} ms saved ({saved_s / original.took_s:.1%})")
    if seen.outcome == "HIT-SEMANTIC":
        facts.append(f"similarity {seen.headers.get('x-cache-similarity')}")
    if not seen.is_hit:
        facts.append(f"reason {seen.headers.get('x-cache-reason')}")
        facts.append(f"answered by {seen.headers.get('x-echogate-backend')}")
    _say(f"  {number}. {seen.step.title}: {seen.step.question}")
    _say(f"     {', '.join(facts)}")
    _say(f"     {shorten(seen.answer, 100)}")


def _say_how_to_go_on(parts: Parts) -> None:
    _say(f"""
Try it yourself; this key is for the demo only
  curl -i {parts.url}/v1/chat/completions \\
    -H 'Authorization: Bearer {parts.key}' -H 'Content-Type: application/json' \\
    -d '{{"model": "{MODEL}", "temperature": 0, "messages": [{{"role": "user", "content": "{ASKED}"}}]}}'

  from openai import OpenAI
  client = OpenAI(base_url="{parts.url}/v1", api_key="{parts.key}")
  client.chat.completions.create(model="{MODEL}", messages=[{{"role": "user", "content": "{ASKED}"}}])

  metrics and API documentation: {parts.admin_url}/metrics, {parts.admin_url}/docs
  production is your vLLM:       pools: {{my-model: ["http://vllm-1:8000", "http://vllm-2:8000"]}}
""")


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
