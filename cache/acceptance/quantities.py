"""Reads the numbers in a text, each with the unit beside it: as much what a question is about as its words.

Numbers are compared as written, less thousands separators: "3.10" and "3.1" are two versions of Python.
"""

from __future__ import annotations

import re

Quantities = tuple[tuple[str, str], ...]

_UNITS = {
    word: line.split()[0]
    for line in """
% percent pct
$ usd dollar dollars bucks 美元 美金
€ eur euro euros 欧元
£ gbp quid sterling 英镑
¥ jpy yen 日元
₹ inr rupee rupees rs
元 rmb cny yuan 块 块钱 元钱 人民币
kg kilo kilos kilogram kilograms 公斤 千克
g gram grams gramme grammes 克
jin 斤
mg milligram milligrams 毫克
lb lbs pound pounds 磅
oz ounce ounces
t ton tons tonne tonnes 吨
km kilometer kilometers kilometre kilometres 公里 千米
li 里
m meter meters metre metres 米
cm centimeter centimeters centimetre centimetres 厘米
mm millimeter millimeters millimetre millimetres 毫米
mi mile miles 英里
ft foot feet
in inch inches
yd yard yards
l liter liters litre litres 升
ml milliliter milliliters millilitre millilitres 毫升
gal gallon gallons
c celsius centigrade °c
f fahrenheit °f
° degree degrees 度
ms millisecond milliseconds
s sec secs second seconds 秒 秒钟
min mins minute minutes 分钟
h hr hrs hour hours 小时 个小时 钟头
clock o'clock 点 点钟
day days 天 日
week weeks 周 星期 个星期
month months 个月
year years 年
岁 周岁
am a.m
pm p.m
th st nd rd
thousand thousands
million millions
billion billions
half 半
第
个
人 个人
次 遍
平 平米 平方米 平方b byte bytes
kb kilobyte kilobytes
mb megabyte megabytes
gb gigabyte gigabytes
tb terabyte terabytes
x times
""".strip().splitlines()
    for word in line.split()
}
_SYMBOLS = "$€£¥₹"
_CHINESE = "|".join(sorted((unit for unit in _UNITS if unit[0] >= "\u4e00"), key=len, reverse=True))
# The sign of a number is part of it ("-5", but not the dash in "2020-2021" or "gpt-4").
_NUMBER = re.compile(
    rf"""(?P<symbol>[{_SYMBOLS}])?\s?
         (?P<number>(?<![\w-])[-−]?\d[\w.,:/-]*\w|(?<![\w-])[-−]?\d|\b[a-z]+[-_.]?\d[\w.-]*\w|\b[a-z]+[-_.]?\d)
         \s?-?(?P<unit>[%°]c?f?|[{_SYMBOLS}]|{_CHINESE}|[a-z]+(?:'clock|\.m)?)?""",
    re.VERBOSE | re.ASCII,  # else a Chinese unit would count as part of the number before it
)
_ONE = re.compile(r"\bone[ -](?P<unit>[a-z]+)")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?:\D|$))")
_GLUED = re.compile(r"(?P<number>[-−]?[\d.,:]*\d)(?P<unit>[a-z]+)")


def quantities(lowered: str) -> Quantities:
    """Of a text in lower case, its numbers in digits, in order. A number without a unit, or before a word
    that is none, has the unit ""."""
    found: list[tuple[int, str, str]] = []
    for match in _NUMBER.finditer(lowered):
        number, unit = match["number"], match["symbol"] or match["unit"] or ""
        if (glued := _GLUED.fullmatch(number)) and glued["unit"] in _UNITS:
            number, unit = glued["number"], match["symbol"] or glued["unit"]
        number = _THOUSANDS.sub("", number).replace("−", "-")
        found.append((match.start(), number, _UNITS.get(unit, "")))
    # "Which one", "how does one": a pronoun far more often than a number, unless a unit follows.
    found += [(m.start(), "1", _UNITS[m["unit"]]) for m in _ONE.finditer(lowered) if m["unit"] in _UNITS]
    return tuple((number, unit) for _, number, unit in sorted(found))
