"""Reads a text once for what the vetoes and the score compare."""

from __future__ import annotations

import functools
import re
import unicodedata
from dataclasses import dataclass

from .canonical import canonical, is_chinese
from .contrasts import members, members_zh, stem
from .dates import relative_times, take_dates, take_told
from .denials import MANNER
from .names import HOMOGRAPHS, cases, names_in, spoken
from .negation import Polarity, polarity, polarity_zh
from .numerals import in_digits
from .quantities import Quantities, quantities
from .slots import forms, languages, payload
from .writing import typed

_WORD = re.compile(r"[\u4e00-\u9fff]|[^\W_\u4e00-\u9fff]+(?:'[^\W_]+)?")
# Words that do not say who does what to whom, or from what to what. Those that do stay, `to` and `than` among
# them; of the pronouns only those that act or are acted on.
_LITTLE_WORDS = """
    a an the is are was were be been being am do does did done doing have has had having can could will would
    shall should may might must my mine your yours our ours his hers it its their what which who whom whose when
    where why how that this these those there here of and or if but then so as at for with about in on onto
    please tell explain give show get some any just also very really much many s t re ve ll d m
"""
_LITTLE = frozenset(_LITTLE_WORDS.split())
_LITTLE_PEOPLE = """
    i me you we us they them he she him her to from by able anyone everyone anything something everything even ever yet
    still always usually actually
"""
_DENIES_NOTHING = _LITTLE | frozenset(_LITTLE_PEOPLE.split())
_SAME = {"me": "i", "him": "he", "her": "she", "them": "they", "us": "we"}
# What stands before such a word goes to, becomes, or exceeds what stands behind it.
_INTO = frozenset(
    (
        "to",
        "into",
        "than",
        "versus",
        "over",
        "beat",
        "beats",
        "instead",
        "then",
        "before",
        "after",
        "转",
        "换",
        "变",
    )
)
# "To" behind these begins a verb; behind "use", "use the app to pay", it says what for.
_BEFORE_VERB_WORDS = """
    able unable need needs needed want wants wanted like love try tries trying tried have has had having how
    possible used use using wish going supposed expect expected ready hope hoping way take takes taking order
"""
_BEFORE_VERB = frozenset(_BEFORE_VERB_WORDS.split())
_THIS = frozenset(("my", "this", "the", "an", "that", "it"))
_PURPOSE = frozenset(("use", "using"))
_EXCHANGES = frozenset(("exchang", "replac", "swap", "trad", "substitut"))
_FOR_ANOTHER = frozenset(("with", "for", "by"))
_ASKS_OBJECT = re.compile(r"\W*(?:who|whom|what|which \w+) (?:did|does|do)\b")
_ASKS_SUBJECT = re.compile(
    r"\W*(?:who|what|which \w+) (?!did|does|do|is|are|was|were|should|can|could|would|will)\w"
)
_INTO_ZH = re.compile(
    "换成|转成|转换为|翻译成|译成|变成|换|转|兑|到|飞|去|比|借给|送给|教|追|打败|战胜|变|导入|给"
)
# A dash or a slash is an operator between two numbers, and nothing much anywhere else.
_OPERATOR = re.compile(r"(?<=\d) ?([-−/]) ?(?=\d)")
# The last few are units, and compared with their numbers.
_PLAIN_SYMBOLS = frozenset(" \t\n\r.,;:!?'\"()-/_’‘“”–—…¿¡%$€£¥₹°·、，。？！；：（）【】《》「」『』～~")
_MOST_KEPT = 4_096
# NFKC would make plain digits of them.
_POWERS = {ord(sign): f"^{digit}" for digit, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}


@dataclass(frozen=True, slots=True)
class Flow:
    """Words before and behind one that leads from the first to the second."""

    before: frozenset[str]
    behind: frozenset[str]


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything about one text that is compared with another's. Holds words of the text: never to be shown."""

    script: str  # "latin", "chinese"
    words: frozenset[str]
    spoken: frozenset[str]  # the words in the form that names have
    roles: tuple[str, ...]  # stems of the words that say who does what to whom, in order; Chinese: characters
    flow: Flow
    quantities: Quantities
    dates: frozenset[str]
    times: frozenset[str]  # today, next week, …
    told: frozenset[str]  # the same, of what is told beside the question: "I lost it yesterday"
    polarity: Polarity
    contrasts: dict[int, frozenset[str]]
    names: frozenset[str]
    languages: tuple[str, ...]
    forms: frozenset[str]
    asks: str  # "object": who did Tom hit? "subject": who hit Tom? Else ""
    cases: dict[str, bool]  # of words that mean another thing with a capital: whether they have it
    payload: frozenset[str]  # words of the long material it brings
    typed: frozenset[str]  # its words as they are typed, where it speaks of how words are written
    symbols: tuple[str, ...]  # what the embedder may not see: signs, emoji, letters of other scripts; sorted
    canonical: str

    def __repr__(self) -> str:
        return f"Reading({self.script}, {len(self.words)} words)"


@functools.lru_cache(maxsize=_MOST_KEPT)
def read(text: str) -> Reading:
    """Some 0.3 ms for a question the first time; stored questions come again and again."""
    plain = unicodedata.normalize("NFKC", text.translate(_POWERS)).replace("’", "'").replace("\u2044", "/")
    lowered = plain.lower()
    dates, undated = take_dates(lowered)
    chinese = is_chinese(plain)
    words = _with_variables([word.split("'")[0] for word in _WORD.findall(lowered)])
    stems = [_SAME.get(word, stem(word)) for word in words]
    same = canonical(text)
    counted = in_digits(undated)
    told, asked = (frozenset[str](), counted) if chinese else take_told(counted)
    return Reading(
        script="chinese" if chinese else "latin",
        words=_words_of(lowered, chinese=chinese),
        spoken=spoken(frozenset(words)),
        roles=tuple(same) if chinese else _roles(words, stems),
        flow=_flow_zh(lowered) if chinese else _flow(words, stems),
        quantities=quantities(asked),
        dates=dates,
        times=relative_times(lowered if chinese else asked),
        told=told,
        polarity=(
            polarity_zh(lowered)
            if chinese
            else polarity(lowered, stems=dict(zip(words, stems, strict=True)), little=_DENIES_NOTHING)
        ),
        contrasts=members_zh(lowered) if chinese else members(words, stems),
        names=names_in(plain),
        languages=languages(lowered),
        forms=forms(lowered),
        asks="object" if _ASKS_OBJECT.match(lowered) else "subject" if _ASKS_SUBJECT.match(lowered) else "",
        cases={} if HOMOGRAPHS.isdisjoint(words) else cases(plain),
        payload=_words_of(payload(lowered), chinese=chinese),
        typed=typed(text),
        symbols=_symbols(undated, chinese=chinese),
        canonical=same,
    )


def _with_variables(words: list[str]) -> list[str]:
    """Marks single letters where several stand for things: there "a" is one of them."""
    letters = {word for word in words if len(word) == 1 and word.isascii() and word.isalpha()} - {"i"}
    if letters <= {"a"} or len(letters) == 1:
        return words
    return [f"={word}" if word in letters else word for word in words]


def _words_of(text: str, *, chinese: bool) -> frozenset[str]:
    if chinese:
        return _pairs(canonical(text)) if text else frozenset()
    return frozenset(word.split("'")[0] for word in _WORD.findall(text))


def _roles(words: list[str], stems: list[str]) -> tuple[str, ...]:
    return tuple(
        stemmed
        for word, stemmed in zip(words, stems, strict=True)
        if word not in _LITTLE and not MANNER.fullmatch(word)
    )


def _flow(words: list[str], stems: list[str]) -> Flow:
    leading = _INTO if _EXCHANGES.isdisjoint(stems) else _INTO | _FOR_ANOTHER
    at = next(
        (at for at in range(1, len(words) - 1) if words[at] in leading and not _leads_nowhere(words, at)),
        None,
    )
    if at is None:
        return Flow(frozenset(), frozenset())
    kept = [frozenset(_roles(words[part], stems[part])) for part in (slice(0, at), slice(at + 1, None))]
    return Flow(kept[0] - kept[1], kept[1] - kept[0])


def _leads_nowhere(words: list[str], at: int) -> bool:
    """In "I want to pay", "use the app to pay", "with this app", "the rate for my payment"."""
    if words[at] == "to":
        return words[at - 1] in _BEFORE_VERB or not _PURPOSE.isdisjoint(words[:at])
    return words[at] in _FOR_ANOTHER and "rate" in words[:at] and words[at + 1] in _THIS


def _flow_zh(text: str) -> Flow:
    match = next((match for match in _INTO_ZH.finditer(text) if match.start() > 0), None)
    if match is None:
        return Flow(frozenset(), frozenset())
    before, behind = _pairs(text[: match.start()]), _pairs(text[match.end() :])
    return Flow(before - behind, behind - before)


def _pairs(text: str) -> frozenset[str]:
    """Of neighbouring characters: the nearest thing to words where none are marked."""
    return frozenset(text[at : at + 2] for at in range(len(text) - 1)) or frozenset((text,))


def _symbols(lowered: str, *, chinese: bool) -> tuple[str, ...]:
    signs = [sign for sign in lowered.replace(" & ", " and ") if _is_symbol(sign, chinese=chinese)]
    return tuple(sorted(signs + _OPERATOR.findall(lowered)))


def _is_symbol(sign: str, *, chinese: bool) -> bool:
    if sign in _PLAIN_SYMBOLS or (chinese and sign.isalpha()):
        return False
    return not sign.isalnum() or ord(sign) > 0x24F  # beyond the Latin letters
