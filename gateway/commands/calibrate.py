"""The commands that show what the cache's policies would serve and how wrong, and how often a judge is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..settings.reading import Settings
from .admin_client import AdminClient
from .terminal import AsJson, Config, fail, told_plainly

if TYPE_CHECKING:
    from cache import Embedder

    from ..ops.calibrate_judge import JudgeReport
    from ..ops.curve import Curve


def calibrate(
    pairs: Annotated[
        Path | None,
        typer.Option(help='Lines of {"a": …, "b": …, "same": …}, with "kind" if there are kinds.'),
    ] = None,
    stream: Annotated[
        Path | None, typer.Option(help='Lines of {"text": …, "cls": …} in order: equal cls, equal answer.')
    ] = None,
    is_shadow: Annotated[
        bool, typer.Option("--shadow", help="Of a running Echogate: by a tenant's own audits.")
    ] = False,
    judge: Annotated[
        str | None,
        typer.Option(help="Measure a judge: agreement, or a model of a running Echogate. With --answers."),
    ] = None,
    answers: Annotated[
        Path | None,
        typer.Option(
            help='With --judge: lines of {"question": …, "fresh_answer": …, "stored_question": …, "stored_answer": …, '
            '"label": true if the stored answer is right for the question}.'
        ),
    ] = None,
    install: Annotated[
        bool, typer.Option("--install", help="With --judge: correct F by it in the running Echogate.")
    ] = False,
    tenant: Annotated[str | None, typer.Option(help="With --shadow: whose audits.")] = None,
    namespace: Annotated[
        str | None, typer.Option(help="With --shadow: of this cache namespace only.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="With --shadow: of this model only.")] = None,
    png: Annotated[
        Path | None, typer.Option(help="With --stream or --shadow: write the curve to this file.")
    ] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Find the policy and threshold for an error budget, by labelled questions or by audits; or measure a judge."""
    if sum((pairs is not None, stream is not None, is_shadow, judge is not None)) != 1:
        fail("give one of --pairs, --stream, --shadow and --judge")
    if (judge is None) != (answers is None):
        fail("--judge and --answers go together")
    if is_shadow and tenant is None:
        fail("--shadow needs --tenant")
    # Here, because they load numeric libraries that no other command needs.
    from cache import ModelError

    from ..ops.labelled import BadFile

    with told_plainly():
        settings = Settings.load(config)
        try:
            if pairs is not None:
                lines = _pairs(pairs, settings, as_json)
            elif stream is not None:
                lines = _stream(stream, settings, png, as_json)
            elif judge is not None and answers is not None:
                lines = _judge(judge, answers, settings, install, as_json)
            else:
                wanted = {"tenant": tenant, "namespace": namespace, "model": model}
                lines = _shadow(wanted, settings, png, as_json)
        except (ModelError, BadFile, OSError) as error:
            fail(str(error))
    for line in lines:
        typer.echo(line)


def _pairs(file: Path, settings: Settings, as_json: bool) -> Sequence[str]:
    from ..ops.calibrate import count_pairs
    from ..ops.calibrate_text import pairs_text

    found = count_pairs(file, _embedder(settings))
    return [json.dumps([asdict(counts) for counts in found])] if as_json else list(pairs_text(found))


def _stream(file: Path, settings: Settings, png: Path | None, as_json: bool) -> Sequence[str]:
    from ..ops.calibrate import trace_curve

    curve = trace_curve(file, _embedder(settings), tell=_tell)
    _draw(curve, png)
    return [json.dumps(curve.record())] if as_json else _curve_lines(curve)


def _shadow(wanted: dict[str, Any], settings: Settings, png: Path | None, as_json: bool) -> Sequence[str]:
    from ..ops.calibrate_text import shadow_heading
    from ..ops.curve import Curve

    found = AdminClient(settings).ask("GET", "/admin/cache/shadow", params=wanted)["data"]
    if png is not None and len(found) != 1:
        fail(f"--png draws one curve and {len(found)} were found: say which by --namespace and --model")
    if found:
        _draw(Curve.of(found[0]), png)
    if as_json:
        return [json.dumps(found)]
    if not found:
        return [
            f"no audits of {wanted['tenant']}: nothing came near a stored question yet, or nothing is audited"
        ]
    return [line for each in found for line in (shadow_heading(each), *_curve_lines(Curve.of(each)), "")]


def _judge(name: str, file: Path, settings: Settings, is_installed: bool, as_json: bool) -> Sequence[str]:
    from ..ops.calibrate_judge import judge_text

    report = _measured(name, file, settings)
    if is_installed:
        rates = {field: getattr(report.rates, field) for field in report.rates.__struct_fields__}
        AdminClient(settings).ask("PUT", "/admin/cache/judges", {"judge": name, **rates})
    if as_json:
        return [json.dumps(report.record() | {"is_installed": is_installed})]
    effect = "is corrected from now on" if report.is_usable else "is not counted from now on"
    installed = [f"installed: F as judged by {name} {effect}"] if is_installed else []
    return [*judge_text(report), *installed]


def _measured(name: str, file: Path, settings: Settings) -> JudgeReport:
    from cache import AgreementJudge, EmbedQueue, Exchange

    from ..ops.calibrate_judge import measure, read_answers

    labelled = read_answers(file)
    if name != "agreement":
        client = AdminClient(settings)

        async def ask(exchange: Exchange) -> bool | None:
            asked = {field: getattr(exchange, field) for field in exchange.__struct_fields__}
            said: bool | None = client.ask("POST", "/admin/cache/judgements", {"judge": name, **asked})[
                "agrees"
            ]
            return said

        return asyncio.run(measure(name, ask, labelled, tell=_tell))
    embedder = _embedder(settings)

    async def alone() -> JudgeReport:
        queue = EmbedQueue(embedder)
        try:
            return await measure(name, AgreementJudge(queue).agrees, labelled, tell=_tell)
        finally:
            queue.close()

    return asyncio.run(alone())


def _embedder(settings: Settings) -> Embedder:
    from ..evidence.embedding import opened_embedder

    wanted = settings.cache.embedder
    if wanted.kind == "none":
        fail("cache.embedder.kind is none: similarity cannot be measured without an embedder")
    return opened_embedder(settings, wanted)


def _curve_lines(curve: Curve) -> list[str]:
    from ..ops.calibrate_text import curve_text

    return list(curve_text(curve))


def _draw(curve: Curve, png: Path | None) -> None:
    from ..ops.curve_png import curve_png

    if png is not None:
        png.write_bytes(curve_png(curve))


def _tell(text: str) -> None:
    typer.echo(text, err=True)
