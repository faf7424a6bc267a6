"""Reads dates and relative times out of a text, so that each way of writing one date compares equal.

A date of numbers alone that could be read day first or month first (05/09/2016) stays as written.
"""

from __future__ import annotations

import re

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_WRITTEN = [
    re.compile(rf"\b{_YEAR}[-/.](?P<month>[01]?\d)[-/.]{_DAY}\b"),
    re.compile(rf"\b{_MONTH} {_DAY}\b(?:,? {_YEAR}\b)?"),
    re.compile(rf"\b{_DAY} (?:of )?{_MONTH}(?:,? {_YEAR}\b)?(?![a-z])"),
    re.compile(rf"\b{_YEAR} {_MONTH} {_DAY}\b"),
    re.compile(rf"\b{_MONTH},? (?:of )?{_YEAR}\b"),
    re.compile(rf"(?:{_YEAR}年)?(?P<month>1?\d)月(?:{_DAY}[日号])?"),
]
_NUMBERS_ALONE = re.compile(rf"\b(?P<first>[0-3]?\d)[/.-](?P<second>[0-3]?\d)[/.-]{_YEAR}\b")
_RELATIVE = re.compile(
    r"\b(?:(?P<which>this|last|next|previous|past|coming) (?P<span>morning|afternoon|evening|night|day|week|weekend"
    r"|month|quarter|year|century|decade|summer|winter|spring|autumn|fall"
    r"|monday|tuesday|wednesday|thursday|friday|saturday|sunday)"
    r"|(?P<day>day before yesterday|day after tomorrow|today|tonight|tomorrow|yesterday|ago))\b"
)
# When something happened, beside the question: "I lost it yesterday. What now?"
_PAST = re.compile(
    r"\b(?:earlier |since |about |around |on |the )*(?P<when>day before yesterday|yesterday|today|tonight"
    r"|this (?:morning|afternoon|evening|week|month)|last (?:night|week|weekend|month|monday|tuesday|wednesday|thursday"
    r"|friday|saturday|sunday))\b"
    r"|\b(?:(?P<count>\d+|an?)|some|(?:an? )?few|(?:an? )?couple(?: of)?|several)"
    r" (?P<unit>minute|hour|day|week|month)s? ago\b"
)
_ASKS = (
    r"(?:what|when|where|which|who|whom|whose|why|how|is|are|was|were|do|does|did|can|could|will|would|should"
    r"|show|list|give|tell|find|count|summari[sz]e|please)\b"
)
_SENTENCE = re.compile(rf"(?:(?!,? (?:so |and |but )?{_ASKS})[^.?!(])+[.?!(]*|.", re.DOTALL)
_TELLS = re.compile(
    r"(?=.*\b(?:i|we|my|our|someone|somebody)\b)"
    rf"\W*(?!{_ASKS})[^?]*$"
)
_SAME_WHICH = {"previous": "last", "past": "last", "coming": "next"}
_RELATIVE_ZH = {
    word: line.split()[0]
    for line in """
今天 今日 今儿
明天 明日 明儿
昨天 昨日
前天
后天
今晚 今夜
明晚
昨晚 昨夜
今年 本年
去年 上年
明年 来年
前年
后年
本周 这周 这星期 这个星期 这礼拜
上周 上星期 上个星期 上礼拜
下周 下星期 下个星期 下礼拜
本月 这个月
上月 上个月
下月 下个月
早上 早晨 清晨
上午
中午
下午
晚上 夜里 夜晚
凌晨
周一 星期一 礼拜一
周二 星期二 礼拜二
周三 星期三 礼拜三
周四 星期四 礼拜四
周五 星期五 礼拜五
周六 星期六 礼拜六
周日 星期日 星期天 礼拜天 周天
周末
""".strip().splitlines()
    for word in line.split()
}
_SIDE_ZH = re.compile("(?:天|年|周|月|小时|分钟|秒)(?:以|之)?(?P<side>[前后])(?!端|台|者|续)|公元前")
_IN_CHINESE = re.compile("|".join(sorted(_RELATIVE_ZH, key=len, reverse=True)))
_LAST_MONTH = 12


def take_dates(lowered: str) -> tuple[frozenset[str], str]:
    """The dates of a text in lower case, as year-month-day with blanks where nothing was said; and the text
    without them."""
    found: set[str] = set()

    def note(match: re.Match[str]) -> str:
        parts = match.groupdict()
        if (date := _written(parts)) is None:
            return match[0]
        found.add(date)
        return " "

    for pattern in _WRITTEN:
        lowered = pattern.sub(note, lowered)
    undated = _NUMBERS_ALONE.sub(lambda match: _only_numbers(match, found), lowered)
    return frozenset(found), undated


def take_told(lowered: str) -> tuple[frozenset[str], str]:
    """When things happened, by the sentences in which somebody tells of them without asking; and the text without."""
    found: set[str] = set()

    def note(match: re.Match[str]) -> str:
        found.add(match["when"] or f"{match['count'] or 'few'} {match['unit']} ago")
        return " "

    def read(sentence: re.Match[str]) -> str:
        return _PAST.sub(note, sentence[0]) if _TELLS.match(sentence[0]) else sentence[0]

    if _PAST.search(lowered):
        lowered = _SENTENCE.sub(read, lowered)
    return frozenset(found), lowered


def relative_times(lowered: str) -> frozenset[str]:
    english = {
        match["day"] or f"{_SAME_WHICH.get(match['which'], match['which'])} {match['span']}"
        for match in _RELATIVE.finditer(lowered)
    }
    sides = {match["side"] or match[0] for match in _SIDE_ZH.finditer(lowered)}
    return frozenset(english | sides | {_RELATIVE_ZH[word] for word in _IN_CHINESE.findall(lowered)})


def _written(parts: dict[str, str | None]) -> str | None:
    month, day = parts.get("month") or "", parts.get("day")
    number = int(month) if month.isdecimal() else _MONTHS.index(month[:3]) + 1
    # "may" alone is a verb far more often than a month; here a day or a year stands beside it.
    if not 1 <= number <= _LAST_MONTH:
        return None
    return f"{parts.get('year') or ''}-{number:02d}-{int(day) if day else 0:02d}"


def _only_numbers(match: re.Match[str], found: set[str]) -> str:
    first, second = int(match["first"]), int(match["second"])
    if first == second or max(first, second) > _LAST_MONTH >= min(first, second):
        found.add(f"{match['year']}-{min(first, second):02d}-{max(first, second):02d}")
    else:
        found.add(f"{match['year']}:{first}/{second}")
    return " "
