"""Draws the curve of a calibration as a PNG: hits to the right, wrong ones among them upwards. No library needed."""

from __future__ import annotations

import itertools
import math
import struct
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .curve import Curve, Point

_WIDTH, _HEIGHT = 720, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 30, 50
_MOST_WRONG = 0.10
_INK, _GRID, _PAPER = (40, 40, 40), (225, 225, 225), (255, 255, 255)
_COLOURS = {"fixed": (200, 60, 50), "guarded": (40, 90, 190), "learned": (20, 140, 70)}
_SCALE = 2
# Three by five dots a sign, rows from the top, three bits each.
_SIGNS = {
    "0": 0o75557, "1": 0o26227, "2": 0o71747, "3": 0o71717, "4": 0o55711, "5": 0o74717, "6": 0o74757, "7": 0o71111,
    "8": 0o75757, "9": 0o75717, "%": 0o51245, ".": 0o00002, " ": 0, "A": 0o25755, "D": 0o65556, "E": 0o74647,
    "F": 0o74644, "G": 0o34553, "H": 0o55755, "I": 0o72227, "L": 0o44447, "N": 0o65555, "R": 0o65655, "S": 0o34216,
    "T": 0o72222, "U": 0o55557, "X": 0o55255,
}  # fmt: skip

Pixels = NDArray[np.uint8]
Colour = tuple[int, int, int]


def curve_png(curve: Curve) -> bytes:
    most_hits = max([0.1, *(point.hit_rate for point in curve.points if point.f <= _MOST_WRONG)])
    most_hits = math.ceil(20 * most_hits) / 20  # whole percents at the five lines
    pixels = np.full((_HEIGHT, _WIDTH, 3), _PAPER, dtype=np.uint8)
    _axes(pixels, most_hits)
    for row, (policy, colour) in enumerate(_COLOURS.items()):
        points = [point for point in curve.points if point.policy == policy and point.hits]
        _line(pixels, [_place(point, most_hits) for point in points], colour)
        _write(pixels, _LEFT + 15, _TOP + 10 + 18 * row, policy.upper(), colour)
    return _encoded(pixels)


def _axes(pixels: Pixels, most_hits: float) -> None:
    for step in range(6):
        share = step / 5
        x = round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT))
        y = round(_HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM))
        pixels[_TOP : _HEIGHT - _BOTTOM, x] = _GRID
        pixels[y, _LEFT : _WIDTH - _RIGHT] = _GRID
        _write(pixels, x - 12, _HEIGHT - _BOTTOM + 10, f"{100 * share * most_hits:.0f}%", _INK)
        _write(pixels, _LEFT - 40, y - 5, f"{100 * share * _MOST_WRONG:.0f}%", _INK)
    pixels[_TOP : _HEIGHT - _BOTTOM, _LEFT] = _INK
    pixels[_HEIGHT - _BOTTOM, _LEFT : _WIDTH - _RIGHT] = _INK
    _write(pixels, _WIDTH - _RIGHT - 40, _HEIGHT - 20, "HITS", _INK)
    _write(pixels, _LEFT - 5, _TOP - 20, "F", _INK)


def _place(point: Point, most_hits: float) -> tuple[int, int]:
    across, up = min(1.0, point.hit_rate / most_hits), min(1.0, point.f / _MOST_WRONG)
    x = _LEFT + across * (_WIDTH - _LEFT - _RIGHT)
    return round(x), round(_HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM))


def _line(pixels: Pixels, places: Sequence[tuple[int, int]], colour: Colour) -> None:
    for x, y in places:
        pixels[y - 3 : y + 4, x - 3 : x + 4] = colour
    for (x0, y0), (x1, y1) in itertools.pairwise(places):
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        xs = np.linspace(x0, x1, steps + 1).round().astype(int)
        ys = np.linspace(y0, y1, steps + 1).round().astype(int)
        pixels[ys, xs] = colour


def _write(pixels: Pixels, x: int, y: int, text: str, colour: Colour) -> None:
    for number, sign in enumerate(text):
        for dot in range(15):
            if _SIGNS[sign] >> (14 - dot) & 1:
                left, top = x + (4 * number + dot % 3) * _SCALE, y + dot // 3 * _SCALE
                pixels[top : top + _SCALE, left : left + _SCALE] = colour


def _encoded(pixels: Pixels) -> bytes:
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
