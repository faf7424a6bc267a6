"""Reads what a request asks of the answer's form: language, format, audience, and what material it brings."""

from __future__ import annotations

import re

LANGUAGES = {
    word: line.split()[0]
    for line in """
english 英语 英文
german 德语 德文
french 法语 法文
spanish 西班牙语 西语
italian 意大利语
dutch 荷兰语
portuguese 葡萄牙语
russian 俄语 俄文
chinese mandarin 中文 汉语 普通话
cantonese 粤语 广东话
japanese 日语 日文
korean 韩语 韩文
arabic 阿拉伯语
turkish 土耳其语
polish 波兰语
hindi 印地语
swedish 瑞典语
greek 希腊语
hebrew 希伯来语
latin 拉丁语
ukrainian 乌克兰语
czech 捷克语
danish 丹麦语
norwegian 挪威语
finnish 芬兰语
hungarian 匈牙利语
romanian
bulgarian
serbian
croatian
slovak
catalan
icelandic
irish
urdu
tamil
telugu
bengali
punjabi
persian farsi 波斯语
indonesian 印尼语
malay 马来语
swahili
esperanto 世界语
vietnamese 越南语
thai 泰语
python
javascript js
typescript ts
java
ruby
rust
golang
kotlin
swift
php
perl
scala
haskell
bash
powershell
sql
lua
matlab
fortran
cobol
elixir
dart
julia
""".strip().splitlines()
    for word in line.split()
}
_NAMED = re.compile(
    rf"\b(?:{'|'.join(word for word in LANGUAGES if word.isascii())})\b"
    rf"|{'|'.join(word for word in LANGUAGES if not word.isascii())}",
    re.ASCII,  # so that a name ends where Chinese begins
)
_NATURAL = "|".join(word for word in list(LANGUAGES)[: list(LANGUAGES).index("python")])
# The language the answer shall be in: said of an answer, not of what is asked about.
_ANSWER_IN = re.compile(
    rf"\b(?:(?:answer|reply|respond|write|explain|say)\b[^.?!]{{0,20}}\bin|translate\b[^.?!]{{0,40}}\b(?:in|to|into))"
    rf" (?P<english>{_NATURAL})\b"
    rf"|[,.;] ?in (?P<tail>{_NATURAL})\W*$"
    rf"|用(?P<chinese>{_NATURAL})(?:回答|回复|写|解释|说明|说)"
)
_FORMS = {
    word: line.split(":")[0]
    for line in """
json: json
yaml: yaml
csv: csv
xml: xml
markdown: markdown
html: html
table: table|表格
list: list|bullet points?|bullets|列表
poem: poem|haiku|limerick|rhyme|sonnet|诗|一首诗
mail: e-?mail|letter|邮件|一封信
essay: essay|article|作文|文章
tweet: tweet|微博文案
short: one sentence|a sentence|one word|one line|一句话
steps: step by step|steps|分步骤
""".strip().splitlines()
    for word in line.split(": ")[1].split("|")
}
_FORM = "|".join(sorted(_FORMS, key=len, reverse=True))
_AS = re.compile(
    rf"\b(?:as|in|into|using) (?:an? |the form of an? )?(?:short |numbered |bulleted )?(?P<form>{_FORM})\b(?! of)"
    rf"|\b(?P<steps>step by step)\b|[用以](?P<chinese>{_FORM})"
)
_AUDIENCE = re.compile(
    r"\bfor (?:a |an |my )?(?P<who>kids?|child(?:ren)?|beginners?|experts?|dummies|adults?|seniors?|toddlers?)\b"
    r"|\blike i'?m (?P<age>five|5)\b|给(?P<chinese>小孩|孩子|儿童|初学者|新手|专家|老人)"
)
_MANNERS = re.compile(
    r"\b(?:(?P<choice>yes or no|yes/no)"
    r"|(?P<brief>briefly|in brief|short answer|concise(?:ly)?|in a nutshell)"
    r"|(?P<detail>in (?:great |more |full )?detail|detailed|at length|long answer)"
    r"|in (?:very )?(?P<simple>simple|plain|easy|layman'?s) (?:terms|words|language|english)"
    r"|in (?P<technical>technical|scientific|legal|medical) (?:terms|words|language))\b"
)
# Short quotations are often only marked names; a long one is the very thing that is asked about.
_LONGEST_MENTION = 32
_PAYLOAD = re.compile(
    r"[\"“「](?P<quoted>[^\"”」]+)[\"”」]|:(?:\s+|(?=[\u4e00-\u9fff]))(?P<after>\S.*)$", re.DOTALL
)
_SPACES = re.compile(r"\s+")


def languages(lowered: str) -> tuple[str, ...]:
    """In order of their first mention: English to French is not French to English."""
    return tuple(dict.fromkeys(LANGUAGES[word] for word in _NAMED.findall(lowered)))


def forms(lowered: str) -> frozenset[str]:
    """What the answer's form is said to be: "json", "in french", "for children", …"""
    found = {
        _FORMS.get(form, form.rstrip("s"))
        for match in _AS.finditer(lowered)
        for form in match.groups()
        if form
    }
    found |= {
        f"for {who.rstrip('s')}" for match in _AUDIENCE.finditer(lowered) for who in match.groups() if who
    }
    answer = {
        f"in {LANGUAGES[word]}" for match in _ANSWER_IN.finditer(lowered) for word in match.groups() if word
    }
    manners = {match.lastgroup for match in _MANNERS.finditer(lowered) if match.lastgroup}
    return frozenset(found | answer | manners)


def payload(lowered: str) -> str:
    """The long material that a request quotes or brings after a colon; "" where there is none."""
    parts = [part for match in _PAYLOAD.finditer(lowered) for part in match.groups() if part]
    return " ".join(_SPACES.sub(" ", part).strip() for part in parts if _length(part) > _LONGEST_MENTION)


def _length(text: str) -> int:
    """A Chinese character says about as much as two letters."""
    return len(text) + sum("\u4e00" <= sign <= "\u9fff" for sign in text)
