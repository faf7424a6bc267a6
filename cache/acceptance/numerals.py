"""Turns numbers written in Chinese or in English words into digits: 三十五公里, thirty-five miles."""

from __future__ import annotations

import re
from decimal import Decimal

_ONE_WORDS = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen
"""
_ONES = {word: value for value, word in enumerate(_ONE_WORDS.split())}
_TEN_WORDS = """
    twenty thirty forty fifty sixty seventy eighty ninety
"""
_TENS = {word: 10 * value for value, word in enumerate(_TEN_WORDS.split(), 2)}
_ORDINAL_WORDS = """
    third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth
    seventeenth eighteenth nineteenth twentieth
"""
# The first two are often no numbers ("first, how do I …", "a second"): they are words that exclude each other.
_ORDINALS = {word: f"{value}th" for value, word in enumerate(_ORDINAL_WORDS.split(), 3)} | {
    "1st": "first", "2nd": "second", "third": "3rd", "half": "1/2", "twice": "2 times", "thrice": "3 times",
}  # fmt: skip
_ORDINAL = re.compile(rf"(?<!first )(?<!second )(?<!other )\b(?:{'|'.join(_ORDINALS)})\b")
_MINUS = re.compile(r"(?<!\d )\b(?:minus|negative) (?=\d)")
_SCALES = {"hundred": 100, "thousand": 1_000, "million": 10**6, "billion": 10**9}
_WORD = "|".join(sorted([*_ONES, *_TENS, *_SCALES], key=len, reverse=True))
_WORDS = re.compile(rf"\b(?:{_WORD})(?:[ -](?:and )?(?:{_WORD}))*\b")
# "Which one", "how does one": a pronoun far more often than a number, unless a scale or a unit follows.
_DIGITS_ZH = {digit: value for value, digit in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}
_SCALES_ZH = {"十": 10, "百": 100, "千": 1_000}
_GROUPS_ZH = {"万": 10**4, "亿": 10**8}
_NUMERAL_ZH = re.compile("(?P<share>百分之)?(?P<number>[零〇一二两三四五六七八九十百千万亿]+)(?P<next>.?)")
# 一下, 一起, 一样 …: no numbers. 万一, 千万, 十分 are words of their own.
_AFTER_ONE = frozenset("下起样般直定些点个种边旦切共致律并会儿方面向度味")
_IDIOMS_ZH = (
    "万一",
    "千万",
    "十分",
    "百度",
    "万能",
    "三星",
    "一二",
    "七夕",
    "五一",
    "十一",
    "双十一",
    "四川",
    "九寨",
)
_SCALED = re.compile(
    r"(?<![\w.])(\d[\d,]*(?:\.\d+)?) ?(k|thousand|million|mln|billion|bn|lakhs?|crores?|万|亿)(?![a-z0-9])"
)
_SCALE_OF = {
    "k": 10**3, "thousand": 10**3, "million": 10**6, "mln": 10**6, "billion": 10**9, "bn": 10**9,
    "lakh": 10**5, "lakhs": 10**5, "crore": 10**7, "crores": 10**7, "万": 10**4, "亿": 10**8,
}  # fmt: skip


def in_digits(lowered: str) -> str:
    """The text with every number in digits; `one` stays where it stands alone."""
    counted = _ORDINAL.sub(lambda match: _ORDINALS[match[0]], _WORDS.sub(_english, lowered))
    return _SCALED.sub(_scaled, _NUMERAL_ZH.sub(_chinese, _MINUS.sub("-", counted)))


def _english(match: re.Match[str]) -> str:
    words = [word for word in re.split(r"[ -]", match[0]) if word != "and"]
    if words in (["one"], ["hundred"], ["thousand"], ["million"], ["billion"]):
        return match[0]
    total = current = 0
    last = 0
    for word in words:
        if word in _SCALES:
            current = max(current, 1) * _SCALES[word]
            if _SCALES[word] > _SCALES["hundred"]:
                total, current = total + current, 0
        elif (
            last
            and not (last in _TENS.values() and _ONES.get(word, 10) < 10)
            and last not in (100, 1_000, 10**6)
        ):
            return match[0]  # "two three": a list, not a number
        else:
            current += _ONES.get(word, 0) + _TENS.get(word, 0)
        last = _SCALES.get(word, 0) or _TENS.get(word, 0) or max(1, _ONES.get(word, 0))
    return str(total + current)


def _chinese(match: re.Match[str]) -> str:
    numeral, following = match["number"], match["next"]
    if (
        (numeral == "一" and following in _AFTER_ONE)
        or numeral + following in _IDIOMS_ZH
        or numeral in _IDIOMS_ZH
    ):
        return match[0]
    if numeral in _GROUPS_ZH or numeral in ("百", "千") or (numeral[0] in "万亿"):
        return match[0]  # a scale behind digits (3万), or part of a word
    value = _value_zh(numeral)
    return f"{value}%{following}" if match["share"] else f"{value}{following}"


def _value_zh(numeral: str) -> int:
    if all(digit in _DIGITS_ZH for digit in numeral):  # 二〇二四: read out digit by digit
        return int("".join(str(_DIGITS_ZH[digit]) for digit in numeral))
    total = group = digit = 0
    for sign in numeral:
        if sign in _DIGITS_ZH:
            digit = _DIGITS_ZH[sign]
        elif sign in _SCALES_ZH:
            group, digit = group + (digit or 1) * _SCALES_ZH[sign], 0
        else:
            total, group, digit = (total + group + digit) * _GROUPS_ZH[sign], 0, 0
    return total + group + digit


def _scaled(match: re.Match[str]) -> str:
    value = Decimal(match[1].replace(",", "")) * _SCALE_OF[match[2]]
    return f"{value.normalize():f}"
