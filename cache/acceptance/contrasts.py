"""Lists words that exclude each other: two questions that differ in them are different questions.

Each group names its sides, each by one word or by several that mean the same here (a/b). Two texts clash in a group if
both use it and not with the same sides.
"""

from __future__ import annotations

import re

_GROUPS = """
enable/activate disable/deactivate | on off | up down | in out | open close | start/begin stop end | pause resume
add/create/insert/append remove/delete/drop | book/order/reserve/set cancel | commit revert | save discard
increase/raise/grow/rise/boost decrease/reduce/lower/shrink/fall/lessen | upgrade downgrade | promote demote
before after during within | earlier later | first second last next previous final | above below | over under
inside outside | indoor outdoor | indoors outdoors | upper lower | front back | ahead behind | top bottom
more/most less/least/fewer/fewest | maximum/max minimum/min | high low | higher lower | highest lowest
big/large small/little/tiny | bigger/larger smaller | biggest/largest smallest | long short tall | longer shorter taller
longest shortest tallest | wide narrow | wider narrower | deep shallow | deeper shallower | thick thin | thicker thinner
heavy light | heavier lighter | heaviest lightest | near/close far | nearer/closer farther/further
nearest/closest farthest/furthest | fast/quick slow | faster/quicker slower | fastest/quickest slowest
old young new | older younger newer | oldest youngest newest | early late | strong weak | stronger weaker
good bad | better worse | best worst | hard easy | hard soft | harder easier | pre post
cheaper/cheapest/cheap pricier/priciest/expensive | loud quiet | louder quieter | rich poor | richer poorer
hot cold warm cool | hotter colder warmer cooler | dark light | darker lighter | dry wet | empty full | odd even
strength weakness | strengths weaknesses
buy/purchase sell | lend borrow | import export | input output | upload download | send receive | push pull
sender receiver/recipient | buyer seller | debit credit debt | gross net | simple compound | supply demand
deposit withdraw | income expense | profit loss | gain lose | win lose | won lost | pass fail | passed failed
succeed fail | charge refund | cash card cheque check | charged refunded | lock unlock
accept/approve/allow/permit reject/decline/refuse/deny/block/forbid | follow unfollow | link unlink | attack defend
arrive depart | arrival departure | enter/entrance/entry exit | encrypt decrypt | encode decode | compress decompress
pack unpack | serialize deserialize | show hide | include exclude | including excluding/except | true false | yes no
ascend descend | ascending descending | advantage disadvantage | pro con | benefit/upside drawback/downside
cause effect symptom treatment cure | cause prevent | love/like hate/dislike | safe dangerous | possible impossible
positive negative | plus minus | multiply divide | public private | internal external | online offline
manual automatic | sync async | synonym antonym | noun verb adjective adverb | vowel consonant | major minor
left right | north south east west | northern southern eastern western | vertical horizontal | row column
male/men/man/guy female/women/woman | boy/guy girl | mother/mom/mum father/dad | son daughter | brother sister
uncle aunt | nephew niece | grandfather grandmother | husband wife | king queen | boyfriend girlfriend
employer employee | landlord tenant | teacher student | doctor patient | parent child | guilty innocent | dead alive
single married divorced | freeze thaw melt | expand collapse | merge split | join leave | hire fire | lead follow
encourage discourage | cat dog horse | red blue green yellow white black orange purple pink brown gray
lessor/landlord lessee/tenant | mortgagor mortgagee | licensor licensee | grantor grantee | lender borrower
creditor debtor | payer payee | plaintiff defendant | mentor mentee | interviewer interviewee | systolic diastolic
domestic international | urban rural | vegetarian carnivore | virus bacteria/bacterium | unless if
simplified traditional | formal informal casual | win draw | double/twice triple/thrice once half quadruple
day night | sunrise sunset | morning afternoon evening noon midnight | weekday weekend
daily weekly monthly quarterly yearly | second minute hour day week month year
monday tuesday wednesday thursday friday saturday sunday
january february march april may june july august september october november december
spring summer autumn/fall winter | breakfast lunch dinner | christmas easter halloween thanksgiving
json xml yaml csv html markdown | windows linux macos android ios
meter kilometer centimeter millimeter mile foot inch yard | gram kilogram milligram pound ounce ton stone
liter milliliter gallon pint quart cup tablespoon teaspoon | celsius fahrenheit kelvin
dollar euro yen yuan rupee ruble peso franc won bitcoin sterling | bit byte
poem story essay letter/email/mail speech song joke tweet | haiku limerick sonnet
hundred thousand million billion
"""
# "Turn it off on my phone" is about off: the other is a preposition far more often.
_PREPOSITIONS = frozenset(("on", "in", "up", "over"))
_CHECKS = frozenset(("check", "checks", "checked", "checking"))
_BEFORE_CHECKING_WORDS = "please you to i we can could will ll would should must just always then have ve not"
_BEFORE_CHECKING = frozenset(_BEFORE_CHECKING_WORDS.split())
_SPELLINGS = {
    "feet": "foot", "metre": "meter", "kilometre": "kilometer", "km": "kilometer", "centimetre": "centimeter",
    "cm": "centimeter", "millimetre": "millimeter", "mm": "millimeter", "kilo": "kilogram",
    "kg": "kilogram", "lb": "pound", "lbs": "pound", "oz": "ounce", "litre": "liter", "usd": "dollar", "eur": "euro",
    "gbp": "sterling", "jpy": "yen", "cny": "yuan", "rmb": "yuan", "inr": "rupee", "rouble": "ruble", "btc": "bitcoin",
    "tonne": "ton", "grey": "gray", "1st": "first", "2nd": "second",
}  # fmt: skip
_GROUPS_ZH = """
打开 关闭 | 开启 关闭 | 开通 取消 注销 | 增加 减少 | 上升 下降 | 上涨 下跌 | 涨 跌 | 买 卖 | 最大 最小
最高 最低 | 最多 最少 | 最好 最差 最坏 | 最快 最慢 | 最贵 最便宜 | 最长 最短 | 优点 缺点 | 好处 坏处 | 利 弊
左 右 | 南方 北方 | 东部 西部 南部 北部 | 男 女 | 上传 下载 | 进口 出口 | 收入 支出 | 存款 取款 贷款
存钱 取钱 | 借给 还给 | 赢 输 | 胜利 失败 | 成功 失败 | 安装 卸载 | 登录 退出 | 注册 注销 | 绑定 解绑 解除
饭前 饭后 | 之前 之后 | 以前 以后 | 以上 以下 | 国内 国外 | 室内 室外 | 哥哥 弟弟 | 姐姐 妹妹 | 儿子 女儿
爸爸 妈妈 | 父亲 母亲 | 爷爷 奶奶 | 老公 老婆 | 丈夫 妻子 | 男朋友 女朋友 | 冷 热 | 变长 变短 | 增肥 减肥
增重 减重 | 新 旧 | 真 假 | 快 慢 | 简单 复杂 困难 | 容易 难 | 安全 危险 | 合法 违法 非法 | 赞成 反对
支持 反对 | 喜欢 讨厌 | 爱 恨 | 春天 夏天 秋天 冬天 | 春季 夏季 秋季 冬季 | 早餐 午餐 晚餐 | 早饭 午饭 晚饭
加密 解密 | 压缩 解压 | 锁定 解锁 | 添加 删除 | 显示 隐藏 | 允许 禁止 | 公开 私密 | 线上 线下
白天 黑夜 晚上 | 升级 降级 | 升高 降低 | 提高 降低 | 放大 缩小 | 加热 冷却 | 变大 变小 | 单身 已婚
结婚 离婚 | 入职 离职 | 入学 毕业 | 上班 下班 | 上车 下车 | 上山 下山 | 起飞 降落 | 到达 出发 | 早 晚
胖 瘦 | 硬 软 | 甜 咸 辣
入口 出口 | 进站 出站 | 进门 出门 | 红酒 白酒 啤酒 | 借钱 还钱 | 开灯 关灯 | 开机 关机 | 开门 关门 | 胜诉 败诉
变白 变黑 | 弟弟 妹妹 哥哥 姐姐 | 公的 母的 | 猫 狗 | 收快递 寄快递 | 加好友 删好友 | 上楼 下楼 | 上传 下载
单人 双人 三人 | 单程 往返 双程 | 原因 结果 | 升职 降职 | 农历/阴历 公历/阳历 | 涨粉 掉粉 | 买家 卖家 | 上集 下集
春节 国庆 中秋 端午 清明 元旦 元宵 七夕 重阳 | 上半年 下半年 | 上学期 下学期 | 月初 月中 月底 | 年初 年中 年底
除了 包括 | 包邮 不包邮 | 免费 付费/收费 | 道歉 感谢 邀请 | 简体 繁体 | 简单 详细 | 简要 详细 | 古代 现代
诗 作文 故事 小说 歌词 剧本 | 粤语 上海话 闽南话 | 城市 农村 | 工作日 周末 节假日 | 红色 黑色 白色 蓝色 绿色 黄色
主人 客人 | 长辈 晚辈
"""
_SUFFIXES = ("ing", "ed", "es", "s", "e")
_SHORTEST_STEM = 3


def stem(word: str) -> str:
    """Takes off what English adds to verbs and nouns: crude, but the same on both sides."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_STEM:
            word = word[: -len(suffix)]
            break
    if len(word) > _SHORTEST_STEM and word[-1] == word[-2]:
        return word[:-1]
    return word


def members_zh(text: str) -> dict[int, frozenset[str]]:
    """The same for Chinese, which marks no word boundaries: whatever stands anywhere in the text."""
    used = {
        number: frozenset(side for word, side in group.items() if word in text)
        for number, group in enumerate(_SIDES_ZH)
    }
    return {number: sides for number, sides in used.items() if sides}


def members(words: list[str], stems: list[str]) -> dict[int, frozenset[str]]:
    """Which groups a text uses, and with which sides."""
    used: dict[int, frozenset[str]] = {}
    for at, (word, stemmed) in enumerate(zip(words, stems, strict=True)):
        if stemmed not in _GROUPS_OF or (word in _CHECKS and _is_verb(words, at)):
            continue
        for group, side in _GROUPS_OF[stemmed]:
            used[group] = used.get(group, frozenset()) | {side}
    return {group: sides - _PREPOSITIONS or sides for group, sides in used.items()}


def _is_verb(words: list[str], at: int) -> bool:
    """To check something, and not to pay by check."""
    return at == 0 or words[at - 1] in _BEFORE_CHECKING or words[at] in ("checked", "checking")


def _sides(groups: str) -> list[dict[str, str]]:
    """Of each group, which side a word is on."""
    return [
        {word: side.split("/")[0] for side in group.split() for word in side.split("/")}
        for group in re.split(r"[|\n]", groups.strip())
    ]


def _groups() -> dict[str, tuple[tuple[int, str], ...]]:
    found: dict[str, tuple[tuple[int, str], ...]] = {}
    for number, group in enumerate(_sides(_GROUPS)):
        for word, side in group.items():
            found[stem(word)] = (*found.get(stem(word), ()), (number, side))
    for word, usual in _SPELLINGS.items():
        found[stem(word)] = found[stem(usual)]
    return found


_GROUPS_OF = _groups()
_SIDES_ZH = _sides(_GROUPS_ZH)
