"""Reads what a text denies. "With a visa" and "without a visa" are near neighbours and different questions.

What counts is not that one text says "not" and the other does not ("my refund hasn't arrived" asks the
same as "where is my refund"), but that one denies what the other affirms. Where the other says it in a word of
its own ("is missing" for "isn't there"), or asks the way to what one cannot do, nothing is contradicted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .contrasts import stem
from .denials import NEGATIVE, Denial, denial
from .pleas import sought, unable_to

# What goes wrong, or is not over yet: where one text says so, the other may say "not".
_TROUBLE_WORDS = """
    lost lose losing missing gone stolen stuck broken fail fails failed failing decline declined declining
    reject rejected denied wrong incorrect incorrectly error errors trouble problem problems issue issues
    pending waiting late delayed
"""
_TROUBLE = frozenset(stem(word) for word in _TROUBLE_WORDS.split())
# Forms that ask for the same with and without the negation.
_HOLLOW = re.compile(
    r"^(?:isn't|aren't|wasn't|weren't|doesn't|didn't|won't|wouldn't|couldn't|shouldn't|can't|haven't|hasn't)\b"
    r"(?=.*\?\W*$)"
    r"|^don't(?= (?:i|you|we|they|people|the|my|your)\b.*\?\W*$)"
    r"|\bnot sure (?=why|what|if|whether|how|when|where)|\b(?:don't|do not) know (?=why|what|if|whether)"
    r"|,\s*(?:is|are|was|were|do|does|did|wo|would|could|should|ca|have|has)n't (?:it|he|she|they|we|you|i)\b"
    r"|\bor not\b|\bwhy not\b|\bnot only\b(?=.*\bbut\b)|\bno\.? (?=\d)|\bno longer\b(?= than)|\bcan't wait\b|\bif not\b"
)
_NOT = re.compile(r"\b(?:yet|fail(?:s|ed)?|refuse[sd]?) to\b")
# "Doesn't seem to work" is about working.
_SEEMING = re.compile(r"\b(?:seem|appear)(?:s|ed)? to\b(?: be\b)?")
_SHOULD_NOT = re.compile(r"\bshould not\b")
# Other ways to say "without".
_WITHOUT = re.compile(
    r"\b(?P<thing>\w+)-free\b|\bfree (?:of|from)\b(?! charge)"
    r"|\b(?P<all>all|any(?:thing|one|body)|every(?:thing|one|body)) but\b"
)
_CLAUSE = re.compile(r"[.,;:?!()]|\b(?:but|and|because|so|if|when|while|although|then)\b")
_TOKEN = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_ALIKE = 0.7
_REACH = 12  # words: no "not" denies what is farther, and a text of nothing else is read in linear time

_IDIOMS_ZH = re.compile(
    "不错|不同|不过|不管|不如|不好意思|对不起|差不多|了不起|不客气|不仅|不但|不断|不得不|不妨|何不|无聊|无线|无数|无论|非常|非洲|没关系"
    "|没什么区别|区别|特别|别人|别的|级别|性别|别墅|告别|分别|未来|未必|差别|不止|不一定|要不然|不然|受不了|忍不住|来不及|无锡|不锈钢"
)
_ASK_BOTH_ZH = re.compile(r"(.)[不没]\1|(?<=.)(?:吗|没|不|没有)(?=[?？]?$)|是否|能否|可否|会否|有无|与否")
# "Why don't we …", "how come not …": a proposal, not a denial.
_PROPOSAL_ZH = re.compile("(?:为什么|为啥|为何|怎么)不(?=试|来|去|用|考虑|直接)")
_NO_ZH = re.compile("不|没有?|无法|无|未|别|勿|非|取消|禁止|拒绝")


@dataclass(frozen=True, slots=True)
class Polarity:
    """All are stems. A word denied anywhere is not among the affirmed, and one behind "before" (`ahead`) is neither.

    Of each of `either` one word at least is denied. `count` is how often the text denies. `troubles` are what goes
    wrong by its own word, `unable` what somebody says they cannot do, `sought` what the way to is asked for.
    """

    denied: frozenset[str]
    affirmed: frozenset[str]
    count: int
    either: tuple[frozenset[str], ...] = ()
    ahead: frozenset[str] = frozenset()
    troubles: frozenset[str] = frozenset()
    unable: frozenset[str] = frozenset()
    sought: frozenset[str] = frozenset()

    @property
    def is_report(self) -> bool:
        """Something is not as it should be."""
        return bool(self.count or self.troubles)

    @property
    def said(self) -> frozenset[str]:
        return self.denied.union(self.affirmed, self.ahead, *self.either)

    def contradicts(self, other: Polarity) -> bool:
        if self._asks_for(other) or other._asks_for(self):
            return False
        if self._denies(other) or other._denies(self):
            return True
        if self._is_put_as_trouble(other) or other._is_put_as_trouble(self):
            return False
        one, two = self.said, other.said
        # Word for word the same but for a "not": whatever it denies.
        is_alike = len(one & two) > _ALIKE * len(one | two) or not (one | two)
        return (self.count - other.count) % 2 == 1 and is_alike

    def _denies(self, other: Polarity) -> bool:
        is_either = any(words and words <= other.affirmed for words in self.either)
        return is_either or not self.denied.isdisjoint(other.affirmed)

    def _asks_for(self, other: Polarity) -> bool:
        """ "I can't find it" for "how do I find it"."""
        return self.count == 1 and not other.count and not self.unable.isdisjoint(other.sought)

    def _is_put_as_trouble(self, other: Polarity) -> bool:
        """ "It isn't there" for "it is missing"."""
        return self.count % 2 == 1 and not other.count and bool(other.troubles - self.said)


def polarity(lowered: str, *, stems: dict[str, str], little: frozenset[str]) -> Polarity:
    """Of an English text; `stems` maps its words to their stems, `little` are the words that deny nothing alone."""
    plain = _plain(lowered)
    denials: list[Denial] = []
    affirmed: set[str] = set()
    ahead: set[str] = set()
    befores = 0
    for clause in _CLAUSE.split(plain):
        words = _TOKEN.findall(clause)
        found = affirmed
        for at, word in enumerate(words):
            bare = word.split("'")[0]
            if word in NEGATIVE or word.endswith("n't"):
                denials.append(denial(word, words[at + 1 : at + 1 + _REACH], stems=stems, little=little))
            elif word == "before" and at + 1 < len(words):
                # What something comes before is not so yet.
                befores, found = befores + 1, ahead
            elif bare not in little:
                found.add(stems.get(bare, bare))
    denied = frozenset[str]().union(*(each.words for each in denials if not each.is_either))
    either = tuple(each.words for each in denials if each.is_either)
    affirmed = affirmed.difference(denied, *either)
    return Polarity(
        denied,
        frozenset(affirmed),
        len(denials) + befores,
        either=either,
        ahead=frozenset(ahead),
        troubles=frozenset(affirmed & _TROUBLE),
        unable=unable_to(plain, denied),
        sought=sought(plain, stems),
    )


def polarity_zh(text: str) -> Polarity:
    """Chinese marks no word boundaries: only how often a text denies is compared."""
    plain = _PROPOSAL_ZH.sub("", _ASK_BOTH_ZH.sub(r"\1", _IDIOMS_ZH.sub("", text)))
    count = len(_NO_ZH.findall(plain))
    return Polarity(frozenset(), frozenset(), count)


def _plain(lowered: str) -> str:
    """With one way of denying for several, and without what only sounds like it."""
    meant = _SEEMING.sub(" ", _HOLLOW.sub(" ", lowered.strip()))
    return _WITHOUT.sub(_without, _NOT.sub(" not ", _SHOULD_NOT.sub("shouldn't", meant)))


def _without(match: re.Match[str]) -> str:
    return f"{match['all'] or ''} without {match['thing'] or ''}"
