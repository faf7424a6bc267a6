"""The command that shows on labelled questions what the cache's policies would serve, and how wrong."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..settings.reading import Settings
from .terminal import AsJson, Config, fail, told_plainly


def calibrate(
    pairs: Annotated[
        Path | None,
        typer.Option(help='Lines of {"a": …, "b": …, "same": …}, with "kind" if there are kinds.'),
    ] = None,
    stream: Annotated[
        Path | None, typer.Option(help='Lines of {"text": …, "cls": …} in order: equal cls, equal answer.')
    ] = None,
    png: Annotated[Path | None, typer.Option(help="With --stream: write the curve to this file.")] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Play labelled questions through the policies: hits, wrong hits, the threshold for each error budget."""
    if (pairs is None) == (stream is None):
        fail("give either --pairs or --stream")
    # Here, because it loads numeric libraries that no other command needs.
    from cache import ModelError

    from ..evidence.embedding import opened_embedder
    from ..ops.calibrate import BadFile, count_pairs, trace_curve
    from ..ops.calibrate_text import curve_text, pairs_text
    from ..ops.curve_png import curve_png

    with told_plainly():
        settings = Settings.load(config)
    wanted = settings.cache.embedder
    if wanted.kind == "none":
        fail("cache.embedder.kind is none: similarity cannot be measured without an embedder")
    try:
        embedder = opened_embedder(settings, wanted)
        if pairs is not None:
            found = count_pairs(pairs, embedder)
            lines = [json.dumps([asdict(counts) for counts in found])] if as_json else list(pairs_text(found))
        else:
            assert stream is not None
            curve = trace_curve(stream, embedder, tell=lambda text: typer.echo(text, err=True))
            lines = [json.dumps(curve.record())] if as_json else list(curve_text(curve))
            if png is not None:
                png.write_bytes(curve_png(curve))
    except (ModelError, BadFile, OSError) as error:
        fail(str(error))
    for line in lines:
        typer.echo(line)
