"""Finds names and codes in a text: places, people, products, abbreviations."""

from __future__ import annotations

import re

_SIGN = r"[^\W_\u4e00-\u9fff]"  # a name ends where Chinese begins, without a blank
_TOKEN = re.compile(rf"(?P<start>^|[.?!:\"“(]\s*)?(?P<word>{_SIGN}(?:{_SIGN}|['’&.-](?={_SIGN}))*)")
# Of kings, wars and chapters.
_ROMAN = re.compile(r"(?=[IVX])X{0,3}(?:IX|IV|V?I{0,3})")
_ROMAN = re.compile(r"X{0,3}(?:IX|IV|V?I{1,3}|V)")
# Names that mean another thing without a capital, and that hardly anybody writes without it.
HOMOGRAPHS = frozenset(("polish", "it", "who", "aids", "may", "march", "august"))
# "World War I", and not "I".
_THE_FIRST = re.compile(r"[A-Z][a-z]+ I(?=\W*$|[,.;:])")
# Where one of these is written small, it is no title in which most words have capitals.
_SMALL_IN_SENTENCES = frozenset(
    ("is", "was", "are", "were", "do", "does", "did", "can", "will", "has", "have", "my")
)
_NO_NAME_WORDS = """
    i i'm i've i'd i'll ok a q faq pros cons am pm
"""
_NO_NAMES = frozenset(_NO_NAME_WORDS.split())
_FEWEST_FOR_TITLE = 4
_MOST_CAPITALS = 0.6
_SHARED_START = 4
# Names that people write without capitals. Only words that mean nothing else in a question that matters.
_KNOWN_WORDS = """
    afghanistan africa albania algeria america argentina armenia asia australia austria azerbaijan
    bahrain bangladesh belarus belgium bolivia brazil britain bulgaria cambodia cameroon canada chile
    china colombia croatia cuba cyprus denmark ecuador egypt england estonia ethiopia europe finland
    france georgia germany ghana greece hungary iceland india indonesia iran iraq ireland israel italy
    bhutan laos niger mali malawi mauritius madagascar mozambique namibia angola botswana gambia guinea gabon haiti
    honduras guatemala nicaragua paraguay fiji tonga samoa montenegro macedonia kosovo liechtenstein monaco andorra
    kyrgyzstan tajikistan turkmenistan brunei maldives bahamas barbados trinidad guyana suriname belize burundi eritrea
    djibouti lesotho togo benin burkina cameroon osaka kyoto brisbane perth adelaide calgary ottawa houston
    jamaica japan jordan kazakhstan kenya kuwait latvia lebanon libya lithuania luxembourg malaysia
    malta mexico moldova mongolia morocco myanmar nepal netherlands nigeria norway oman pakistan panama
    peru philippines poland portugal qatar romania russia rwanda scotland senegal serbia singapore
    slovakia slovenia somalia spain sudan sweden switzerland syria taiwan tanzania thailand tunisia
    turkey uganda ukraine uk us usa uruguay uzbekistan venezuela vietnam wales yemen zambia zimbabwe
    alabama alaska arizona california colorado florida hawaii illinois kansas kentucky michigan
    minnesota montana nevada ohio oregon tennessee texas utah virginia amsterdam athens atlanta baghdad
    bangalore bangkok barcelona beijing berlin bogota boston brussels budapest cairo chennai chicago
    copenhagen dallas delhi denver dubai dublin frankfurt geneva hamburg helsinki houston istanbul
    jakarta karachi kyiv lagos lima lisbon london lyon madrid manila melbourne miami milan montreal
    moscow mumbai munich nairobi naples oslo paris philadelphia prague rome seattle seoul shanghai
    shenzhen stockholm sydney tokyo toronto vancouver venice vienna warsaw zurich adidas adobe airbnb
    alibaba amazon amd android audi bing bmw chatgpt chrome claude dell ebay edge ethereum excel
    facebook firefox ford gemini github gitlab gmail google hbo honda hotmail hp huawei ibm ikea
    instagram intel ios iphone ipad kafka kindle kubernetes lenovo linkedin linux litecoin lyft mac
    macos mastercard mongodb mysql netflix nike nintendo nokia nvidia openai oracle outlook paypal pepsi
    playstation postgres postgresql powerpoint puma reddit redis safari samsung sap shopify siri skype
    slack snapchat sony spotify sqlite stripe telegram tesla tiktok toyota twitter uber visa volvo
    walmart whatsapp wikipedia windows xbox xiaomi yahoo youtube zoom bitcoin dogecoin django flask
    react angular vue numpy pandas pytorch tensorflow jupiter mars mercury neptune pluto saturn uranus
    venus
"""
_KNOWN = frozenset(_KNOWN_WORDS.split())
_KNOWN_ZH = re.compile(
    "中国|美国|英国|法国|德国|日本|韩国|朝鲜|俄罗斯|印度|泰国|越南|加拿大|澳大利亚|澳洲|新西兰|新加坡|马来西亚|意大利|西班牙|巴西"
    "|埃及|土耳其|瑞士|瑞典|荷兰|欧洲|非洲|亚洲|北京|上海|广州|深圳|天津|重庆|成都|杭州|武汉|西安|南京|苏州|长沙|青岛|大连|厦门"
    "|沈阳|济南|郑州|哈尔滨|昆明|香港|澳门|台湾|台北|广东|广西|四川|湖南|湖北|河南|河北|山东|山西|江苏|浙江|福建|安徽|江西|云南"
    "|贵州|海南|新疆|西藏|内蒙古|东京|首尔|伦敦|巴黎|纽约|柏林|莫斯科|苹果|华为|小米|三星|微信|支付宝|淘宝|京东|拼多多|抖音|快手"
    "|微博|百度|腾讯|阿里|谷歌|特斯拉|比亚迪|宝马|奔驰|奥迪|丰田|本田|大众|工商银行|工行|建设银行|建行|农业银行|农行|中国银行|招商银行|招行"
    "|安卓|李白|杜甫|苏轼|鲁迅|刘备|曹操|孙权|宋江|孙悟空|猪八戒|美元|欧元|日元|英镑|人民币|港币|韩元|卢布"
)
_TITLE_ZH = re.compile("《([^》]{1,40})》")
_SAME = {
    "usa": "us", "u.s": "us", "u.s.a": "us", "america": "us", "american": "us", "americans": "us", "u.k": "uk",
    "britain": "uk", "british": "uk", "holland": "netherlands", "dutch": "netherlands", "nyc": "york",
    "postgresql": "postgres", "工行": "工商银行", "建行": "建设银行", "农行": "农业银行", "招行": "招商银行",
    "澳洲": "澳大利亚",
}  # fmt: skip


def names_in(text: str) -> frozenset[str]:
    """In lower case, but single capitals, which stay as they are ("vitamin C"). The text is not lowered yet."""
    found = [(match["start"] is not None, match["word"]) for match in _TOKEN.finditer(text)]
    capitals = sum(word[0].isupper() for _, word in found)
    is_title = (
        len(found) >= _FEWEST_FOR_TITLE
        and capitals > len(found) * _MOST_CAPITALS
        and not any(word in _SMALL_IN_SENTENCES for _, word in found)
    )
    names = {_plain(word) for starts, word in found if _is_name(word, starts=starts, is_title=is_title)}
    if _THE_FIRST.search(text):
        names.add("I")
    chinese = {_SAME.get(name, name) for name in _KNOWN_ZH.findall(text)}
    return frozenset(names | chinese | {f"《{title}》" for title in _TITLE_ZH.findall(text)})


def cases(text: str) -> dict[str, bool]:
    """Whether each homograph has a capital. Nothing for who does not use capitals, or uses nothing else, nor of the
    first word of a sentence."""
    if text == text.lower() or text == text.upper():
        return {}
    words = [match["word"] for match in _TOKEN.finditer(text) if match["start"] is None]
    return {word.lower(): word[0].isupper() for word in words if word.lower() in HOMOGRAPHS}


def spoken(words: frozenset[str]) -> frozenset[str]:
    """All words in the form that names have: a name may be written without its capital elsewhere."""
    return words | {_SAME[word] for word in words if word in _SAME}


def are_variants(one: str, other: str) -> bool:
    """India and Indian, ATM and ATMs, Nevada and Nevadan: one grown from the other. Not Niger and Nigeria."""
    if one in _KNOWN and other in _KNOWN:
        return False
    if len(one) > 2 and len(other) > 2 and (one + "s" == other or other + "s" == one):  # ATM, ATMs
        return True
    shared = next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    return shared >= _SHARED_START and shared >= min(len(one), len(other)) - 1


def is_abbreviation(short: str, of: frozenset[str]) -> bool:
    """Do these names hold a word for each letter of it?"""
    starts = [word[0] for word in of]
    return 1 < len(short) <= len(of) and all(letter in starts for letter in short)


def _is_name(word: str, *, starts: bool, is_title: bool) -> bool:
    lowered = word.lower()
    if lowered in _NO_NAMES and not (word == "A" and not starts):
        return False
    if _plain(word) in _KNOWN:
        return True
    if len(word) > 1 and _ROMAN.fullmatch(word):
        return True
    if sum(sign.isupper() for sign in word) > 1 or any(sign.isdigit() for sign in word):
        # An abbreviation or a code, wherever it stands; numbers alone are compared as numbers.
        return not is_title and not word[0].isdigit()
    return word[0].isupper() and not starts and not is_title


def _plain(word: str) -> str:
    if len(word) == 1:
        return word
    lowered = word.lower().replace("’", "'").removesuffix("'s").strip(".'")
    return _SAME.get(lowered, lowered)
