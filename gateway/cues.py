"""Decides from the words of a question alone whether its answer may be shared with a similar question, or kept at all.

Lists of English and Chinese phrases, narrow on purpose: "How do I check my balance?" asks how, and the answer is the
same for everybody; "What is my balance?" asks for a fact that is one person's.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from typing import Literal

Cue = Literal["personal", "time-bound", "freshness", "low-information"]
# What becomes of a question with a cue: as any other; matched exactly only; neither read nor stored.
Treatment = Literal["semantic", "exact", "bypass"]

DEFAULTS: Mapping[Cue, Treatment] = {
    "freshness": "bypass",
    "personal": "exact",
    "time-bound": "exact",
    "low-information": "exact",
}

_OWN = (
    r"balance|account (?:number|balance|status)|orders?|bills?|invoices?|salary|payslip|pay ?check|appointments?"
    r"|schedule|calendar|inbox|emails?|messages|statements?|transactions?|bookings?|reservations?|flights?"
    r"|deliver(?:y|ies)|parcels?|packages?|points|score|grades?|(?:test )?results?|phone number|address|name"
    r"|birthday|age|location|ip(?: address)?|subscriptions?|refund|ticket|usage|quota|credit limit"
)
_PERSONAL = re.compile(
    rf"\b(?:what(?:'s| is| are| was| were)|where(?:'s| is| are)|when(?:'s| is| are| was)|show(?: me)?|check|look up"
    rf"|list|tell me|give me|read(?: me)?|find|track|how (?:much|many|old|high) (?:is|are|was)|is|are|has|have|did)"
    rf"(?: all)?(?: of)? my (?:\w+ )?(?:{_OWN})\b"
    r"|\bwho am i\b|\bwhere am i\b|\bhow old am i\b|\bhow (?:much|many)(?: \w+){0,3} do i (?:have|owe|earn)\b(?! to)"
    r"|\bdo i (?:have|owe) any\b"
    r"|我的(?:账户|帐户|银行卡|信用卡)?(?:余额|订单|账单|工资|快递|包裹|预约|航班|成绩|积分|行程|日程|邮件|消息|额度|流量|名字|地址|生日)"
    r"|我(?:还)?(?:欠|剩|有)(?:了)?多少|我是谁|我在哪"
)
_HOW = re.compile(
    r"\b(?:how (?:do|can|could|should|would|to)|can i|could i|where can i)\b|怎么|如何|怎样|在哪里?(?:查|看)"
)
_TIME_BOUND = re.compile(
    r"\b(?:today(?:'s)?|tonight|tomorrow|yesterday|right now|just now|currently|at the moment|as of now|so far"
    r"|latest|newest|most recent|recently|up[- ]to[- ]date|breaking news|this (?:morning|afternoon|evening|week|weekend"
    r"|month|quarter|year)|(?:last|next) (?:night|week|weekend|month|quarter|year)|what time is it|what day is it"
    r"|what(?:'s| is) the (?:time|date)(?! (?:complexity|format|zone|signature|limit|value|line))"
    r"|current (?:price|weather|time|date|score|rate|news|status|president|prime minister|ceo|version)"
    r"|(?:what|how)(?:'s| is| are) the (?:\w+ )?(?:stock price|share price|exchange rates?)"
    r"|weather (?:like|in|for|forecast)|news|live score)\b"
    r"|今天|今晚|今日|明天|昨天|现在|目前|当前|此刻|刚刚|刚才|最新|最近|近期|本周|这周|本月|这个月|上周|下周|上个月|下个月|今年|去年|明年"
    r"|天气|股价|汇率|新闻|几点(?:了|钟)|星期几|几号"
)
_MAKE = r"(?:tell|give|show|write|make|suggest|generate|try|pick|create|send|recommend|find|draw|compose|choose|roll)"
_FRESH = re.compile(
    rf"\b{_MAKE}(?: me| us)?(?: up)? (?:yet )?(?:another|an? different|one more|some more|something else|an? random"
    rf"|some random|random)\b"
    r"|^(?:please )?(?:another|one more|once more|again|something else|more)\b(?!.*\?)"
    rf"|\b(?:{_MAKE}|say|do|run|answer|explain|repeat|ask)(?: (?:it|that|this|me|us))* (?:once )?again\W*$"
    r"|\bregenerate\b|\bsurprise me\b|\bonce more\W*$|\bone more time\W*$"
    r"|再(?:给我|帮我)?(?:来|讲|说|写|给|换|试|做|生成|推荐)(?:一|个|遍|次|首|段|点|些)|换(?:一)?(?:个|种|首)|重新(?:生成|写|来|回答|说)|(?:随机|随便)(?:选|生成|挑|来|说|讲|给)"
)
_LOW = re.compile(
    r"(?:please )?(?:continue|go on|keep going|carry on|proceed|next|more|yes|yeah|yep|yup|no|nope|ok|okay|sure|right"
    r"|correct|thanks|thank you|please|and|so|why|how|what|really|great|good|fine|stop|done|hi|hello|hey"
    r"|the (?:first|second|third|last|other) one|that one|this one"
    r"|do it|yes please|no thanks|go ahead|tell me more|what else|and then"
    r"|[a-d]|\d{1,2})"
    r"|(?:请)?(?:继续|接着(?:说|写)?|是|是的|对|对的|好|好的|不|不是|不要|可以|行|嗯+|哦|谢谢|然后(?:呢)?|还有(?:呢)?|为什么|怎么说|你好|第[一二三]个|下一个)"
)
# One of these words is in each English phrase above: most questions have none, and need no closer look.
_TRIGGER_WORDS = (
    "my i today tonight tomorrow yesterday now currently moment far latest newest recent recently date news morning"
    " afternoon evening night week weekend month quarter year time day current price prices rate rates weather score"
    " another different more else random again regenerate surprise"
)
_TRIGGERS = frozenset(_TRIGGER_WORDS.split())
_WORD = re.compile(r"[a-z]+")
_MOST_CHARACTERS = 2_000  # what is longer is no question to share: the embedder does not read it
_EDGES = " \t\r\n.,;:!?…。，！？、~'\"“”"
_IDEOGRAPH = re.compile(r"(?![是对好不行嗯哦])[\u4e00-\u9fff]")  # a word by itself, and so a question
# Bits a character. "aaaaaa" has 0, "hahahaha" 1, "why?" 2; three different words have more than 2.5.
_LEAST_ENTROPY = 1.6
_FEW_CHARACTERS = 4
_LONGEST_LOW = 32  # characters


def find_cue(text: str) -> Cue | None:
    """The cue that restricts most, if the text has any."""
    if len(text) > _MOST_CHARACTERS:
        return None
    plain = text.lower().strip() if text.isascii() else unicodedata.normalize("NFKC", text).lower().strip()
    plain = plain.replace("’", "'")
    if _is_low(plain):
        return "low-information" if not _FRESH.search(plain) else "freshness"
    if plain.isascii() and _TRIGGERS.isdisjoint(_WORD.findall(plain)):
        return None
    if _FRESH.search(plain) and not _HOW.search(plain):
        return "freshness"
    if _PERSONAL.search(plain) and not _HOW.search(plain):
        return "personal"
    return "time-bound" if _TIME_BOUND.search(plain) else None


def _is_low(plain: str) -> bool:
    """A turn that means nothing by itself: what it asks for stands in the turns before."""
    if len(plain) > _LONGEST_LOW:
        return False
    bare = plain.strip(_EDGES)
    if len(bare) < 2 or _LOW.fullmatch(bare):
        return not _IDEOGRAPH.fullmatch(bare)
    return len(bare) > 4 and len(set(bare)) <= _FEW_CHARACTERS and _entropy(bare) < _LEAST_ENTROPY


def _entropy(text: str) -> float:
    """Shannon's, in bits a character, over characters."""
    total = len(text)
    return -sum(count / total * math.log2(count / total) for count in Counter(text).values())
