"""Reads the numbers in a text, each with the unit beside it: as much what a question is about as its words.

Numbers are compared as written, less thousands separators: "3.10" and "3.1" are two versions of Python.
"""

from __future__ import annotations

import re

Quantities = tuple[tuple[str, str], ...]

_NUMBER_WORDS = {
    word: str(value)
    for value, word in enumerate(
        (
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
        )
    )
}
_UNITS = {
    word: line.split()[0]
    for line in """
% percent pct
$ usd dollar dollars bucks
€ eur euro euros
£ gbp quid sterling
¥ jpy yen
₹ inr rupee rupees
kg kilo kilos kilogram kilograms
g gram grams gramme grammes
mg milligram milligrams
lb lbs pound pounds
oz ounce ounces
t ton tons tonne tonnes
km kilometer kilometers kilometre kilometres
m meter meters metre metres
cm centimeter centimeters centimetre centimetres
mm millimeter millimeters millimetre millimetres
mi mile miles
ft foot feet
in inch inches
yd yard yards
l liter liters litre litres
ml milliliter milliliters millilitre millilitres
gal gallon gallons
c celsius centigrade °c
f fahrenheit °f
° degree degrees
ms millisecond milliseconds
s sec secs second seconds
min mins minute minutes
h hr hrs hour hours
day days
week weeks
month months
year years
am a.m
pm p.m
th st nd rd
k thousand thousands
million millions mln
billion billions bn
b byte bytes
kb kilobyte kilobytes
mb megabyte megabytes
gb gigabyte gigabytes
tb terabyte terabytes
x times
""".strip().splitlines()
    for word in line.split()
}
_SYMBOLS = "$€£¥₹"
# The sign of a number is part of it ("-5", but not the dash in "2020-2021" or "gpt-4").
_NUMBER = re.compile(
    rf"""(?P<symbol>[{_SYMBOLS}])?\s?
         (?P<number>(?<![\w-])[-−]?\d[\w.,:/-]*\w|(?<![\w-])[-−]?\d|\b[a-z]+[-_.]?\d[\w.-]*\w|\b[a-z]+[-_.]?\d)
         \s?-?(?P<unit>[%°]c?f?|[{_SYMBOLS}]|[a-z]+(?:\.m)?)?""",
    re.VERBOSE,
)
_WORD_NUMBER = re.compile(rf"\b(?P<number>{'|'.join(_NUMBER_WORDS)})\b[ -]?(?P<unit>[%°]|[a-z]+)?")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?:\D|$))")
_GLUED = re.compile(r"(?P<number>[-−]?[\d.,:]*\d)(?P<unit>[a-z]+)")


def quantities(lowered: str) -> Quantities:
    """Of a text in lower case, in order. A number without a unit, or before a word that is none, has the unit ""."""
    found: list[tuple[int, str, str]] = []
    for match in _NUMBER.finditer(lowered):
        number, unit = match["number"], match["symbol"] or match["unit"] or ""
        if (glued := _GLUED.fullmatch(number)) and glued["unit"] in _UNITS:
            number, unit = glued["number"], match["symbol"] or glued["unit"]
        number = _THOUSANDS.sub("", number).replace("−", "-")
        found.append((match.start(), number, _UNITS.get(unit, "")))
    for match in _WORD_NUMBER.finditer(lowered):
        unit = _UNITS.get(match["unit"] or "", "")
        # "Which one", "how does one": a pronoun far more often than a number, unless a unit follows.
        if unit or match["number"] != "one":
            found.append((match.start(), _NUMBER_WORDS[match["number"]], unit))
    return tuple((number, unit) for _, number, unit in sorted(found))
