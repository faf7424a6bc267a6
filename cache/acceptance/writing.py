"""Owns the normal form of a text: what is left when all is taken away that only says how it was typed.

Width, case, runs of spaces and final punctuation go, where they say nothing. Where they might say something, they stay,
or the text has no normal form and equals itself alone: the price is a look for similar questions, which is made anyway.
"""

from __future__ import annotations

import re
import unicodedata

_LONGEST = 1_000  # characters; what is longer is typed once
# Code, paths, addresses, quotations, what is brought after a colon, lines, options, variables: each sign counts there.
_LITERAL = re.compile(
    r"[`{}<>=\\|_@/\"“”„«»「」『』\t~^]|(?<![^\W\d_])['‘’](?=\w)|[^\W\d_]\(|[:：](?!\d)|\S\s*[\r\n]\s*\S"
    r"|(?<!\S)--?[A-Za-z]|[$%#][A-Za-z]"
)
_ABOUT_WRITING = re.compile(
    r"\b(?:(?:upper|lower)[ -]?cased?|capital letters?|capitali[sz](?:e[sd]?|ing|ations?)|caps"
    r"|case[- ](?:in)?sensitiv\w+|punctuat\w+|white ?spaces?|spaces|spacing|indent\w*"
    r"|how many (?:characters|letters)|letters? in|(?:base ?64|md5|sha-?\d+|hash|checksum|crc-?\d*|rot-?13"
    r"|hex(?:adecimal)?|(?:ascii|unicode) (?:code|value)s?) of"
    r"|in morse|(?:exclamation|question|quotation) marks?|commas?|apostrophes?|hyphens?|semicolons?|full stops?|typos?"
    r"|misspel\w+|spelling|grammatical\w*|proofread\w*|correct (?:this|the)|palindromes?|anagrams?"
    r"|reverse (?:the|this) (?:string|word|text)|verbatim|repeat after me)\b|^(?:please )?(?:en|de)code\b"
    r"|大写|小写|标点|空格|编码|解码|哈希|字符|感叹号|问号|逗号|句号|错别字|病句|逐字",
    re.IGNORECASE,
)
_TYPED = re.compile(r"\S+|\s{2,}")
_NO_LETTER = re.compile(r"[\W_]+")
# In each text that one of the two above finds anything in: most have none, and need no closer look.
_SIGNS = re.compile(r"[`{}<>=\\|_@/\"“”„«»「」『』\t~^'‘’(:：\r\n$%#-]")
_ON_WRITING_WORDS = """
    case capital caps punctuat spac indent how·many letter md5 sha crc 64·of hash·of checksum·of 13·of hex
    codes·of values·of in·morse mark comma apostroph hyphen semicolon full·stop typo spel grammat proofread correct
    palindrom anagram reverse verbatim after·me code value·of 大写 小写 标点 空格 编码 解码 哈希 字符 感叹号 问号 逗号
    句号 错别字 病句 逐字
"""
_ON_WRITING = tuple(words.replace("·", " ") for words in _ON_WRITING_WORDS.split())
# NFKC makes "52" of "5²" and "1⁄2" of "½".
_NUMERIC_FORMS = ("<super>", "<sub>", "<fraction>", "<circle>", "<square>")
_WORD = re.compile(r"[^\W\d_]\w*(?:[.'-]\w+)*")
_START = re.compile(r"[.?!] \W*$")
_FINAL = " .。!?…"
_FACTORIAL = re.compile(r"(?:\d|(?<!\w)\w|\))\s*!")
_SENTENCE = re.compile(r"[.?!。] ?")
# Without its question mark such a text is a question still.
_ASKS = re.compile(
    r"^(?:what|who|whom|whose|which|when|where|why|how|is|are|am|was|were|does|did|can|could|will|would|should|shall"
    r"|may|might|must|has|had|isn't|aren't|wasn't|weren't|doesn't|don't|didn't|can't|couldn't|won't|wouldn't|shouldn't|what's"
    r"|who's|where's|how's|do (?:i|you|we|they|people|any|\w+s)|have (?:i|you|we|they))\b"
    r"|吗|呢|什么|啥|怎|咋|如何|为何|何时|谁|哪|几|多少|多久|多大|多长|多远|是否|能否|可否|还是|(.)[不没]\1"
)
# Words that mean one thing with a capital and another without.
_TWO_MEANINGS_WORDS = """
    us it who aids am pm may march august polish turkey china japan jersey chad jordan georgia mali nice bath
    reading cork mobile orange apple amazon windows word excel access edge chrome safari opera outlook teams
    office slack zoom meta alphabet oracle java python rust go swift ruby perl dart scala crystal julia basic
    cobra elixir falcon flask spark hive shell gap target subway visa discover chase galaxy mercury venus mars
    saturn pluto titan earth sun moon bill will mark rob jack rose grace hope faith joy frank pat sue dick bush
    rice gates jobs king cook ford dodge lotus jaguar puma fox cat ram sat act gre art bit dell apollo nova ant
    gas led pin sim mac lan wan ping tor ace catholic liberal democrat republican conservative bible lent god lord
    pole finn dane welsh scotch
"""
_TWO_MEANINGS = frozenset(_TWO_MEANINGS_WORDS.split())


def normalised(text: str) -> str | None:
    """None where the text has no normal form: it is then the same as itself only."""
    if len(text) > _LONGEST or (_SIGNS.search(text) and _LITERAL.search(text)):
        return None
    if _is_about_writing(text):
        return None
    if not text.isascii() and any(
        unicodedata.decomposition(sign).startswith(_NUMERIC_FORMS) for sign in text
    ):
        return None
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    plain = " ".join(plain.replace("’", "'").split())
    bare = plain.rstrip(_FINAL)
    end = plain[len(bare) :]
    if "!" in end and _FACTORIAL.search(plain[max(0, len(bare) - 2) :]):
        return None
    small = bare.lower()
    # In most texts only the first letter is a capital.
    folded = small if bare[1:] == small[1:] else _WORD.sub(_folded, bare)
    if "?" in end and not _ASKS.search(_SENTENCE.split(folded)[-1]):
        folded += "?"
    return folded if bare else None


def is_same(one: str, other: str) -> bool:
    """Whether two texts differ at most in how they were typed."""
    if one == other:
        return True
    form = normalised(one)
    return form is not None and form == normalised(other)


def typed(text: str) -> frozenset[str]:
    """The words of a text that speaks of how words are written, as they are typed; else none. The capital and the
    question mark that every question has are left out."""
    if not _is_about_writing(text):
        return frozenset()
    return frozenset(_TYPED.findall(text[:1].lower() + text[1:].rstrip().removesuffix("?")))


def is_typed_otherwise(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether a word of both is typed otherwise in one: "hello" and "Hello!" have not the same characters."""
    if not one or not other or one == other:
        return False
    bare = [{_NO_LETTER.sub("", word).lower() for word in words} | {""} for words in (one, other)]
    return any(_NO_LETTER.sub("", word).lower() in bare[0] & bare[1] for word in one ^ other)


def _is_about_writing(text: str) -> bool:
    lowered = text.lower()
    for word in _ON_WRITING:  # not `any`, which takes twice as long: most texts have none
        if word in lowered:
            return _ABOUT_WRITING.search(text) is not None
    return False


def _folded(match: re.Match[str]) -> str:
    word = match[0]
    lowered = word.lower()
    if word == lowered:
        return word
    is_capital_only = word[1:] == lowered[1:]
    before = match.string[max(0, match.start() - 4) : match.start()]
    if is_capital_only and (match.start() == 0 or _START.search(before)):
        return lowered  # the capital of a sentence
    is_plain = word.isalpha() and (is_capital_only or word.isupper())
    is_apart = len(word) == 1 and lowered != "i"  # a grade, a vitamin, a variable
    is_unit = before.rstrip(" ")[-1:].isdigit()  # 5 MB, 5 Mb
    return lowered if is_plain and not (is_apart or is_unit or lowered in _TWO_MEANINGS) else word
