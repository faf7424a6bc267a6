"""Lists words that exclude each other: two questions that differ in them are different questions.

Each line is a group. Two texts clash in a group if both use it and not with the same members.
"""

from __future__ import annotations

import re

_GROUPS = """
enable disable | activate deactivate | on off | up down | in out | open close | start stop | begin end
add remove | insert delete | create delete | increase decrease | raise lower | increase reduce | grow shrink
before after | earlier later | first last | above below | over under | inside outside
more less | more fewer | most least | maximum minimum | max min | high low | higher lower | highest lowest
big small | large small | bigger smaller | larger smaller | long short | longer shorter | wide narrow
buy sell | lend borrow | import export | input output | upload download | send receive | push pull
accept reject | accept decline | accept refuse | allow deny | allow block | allow forbid | permit forbid
approve reject
lock unlock | install uninstall | mount unmount | subscribe unsubscribe | follow unfollow | connect disconnect
encrypt decrypt | encode decode | compress decompress | zip unzip | pack unpack | serialize deserialize
show hide | win lose | gain lose | pass fail | succeed fail | true false | yes no | best worst | better worse
good bad | cheap expensive | cheapest expensive | safe dangerous | legal illegal
possible impossible | hot cold | warm cool
fast slow | faster slower | fastest slowest | early late | old new | older newer | oldest newest | young old
left right | north south east west | northern southern eastern western
vertical horizontal | row column | male female | men women | boy girl | guy girl | mother father
son daughter | husband wife
love hate | like dislike | gain loss | profit loss | advantage disadvantage | pro con | benefit drawback
arrive depart | arrival departure | enter exit | entrance exit | sunrise sunset | day night | morning evening
ascend descend | ascending descending | encourage discourage | attack defend | credit debit | deposit withdraw
public private | internal external | online offline | manual automatic | sync async | synchronous asynchronous
positive negative | plus minus | multiply divide | odd even | rich poor | strong weak | hard soft | hard easy
empty full | dry wet | dark light | heavy light | thick thin | deep shallow | alive dead | single married
freeze thaw | melt freeze | expand collapse | merge split | join leave | hire fire | lead follow
daily weekly monthly quarterly yearly
second minute hour day week month year
monday tuesday wednesday thursday friday saturday sunday
january february march april may june july august september october november december
spring summer autumn winter | breakfast lunch dinner
json xml yaml csv html markdown | windows linux macos android ios | major minor | domestic international
income expense | buyer seller | employer employee | landlord tenant | teacher student | doctor patient | parent child
north south | summer winter | breakfast dinner | urban rural | vegetarian carnivore
strengths weaknesses | verify unverify | follow unfollow | freeze unfreeze
block unblock | link unlink | archive unarchive | tall short
"""
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


def members_zh(text: str) -> dict[int, tuple[str, ...]]:
    """The same for Chinese, which marks no word boundaries: whatever stands anywhere in the text."""
    used = {
        number: tuple(sorted({word for word in group if word in text}, key=text.index))
        for number, group in enumerate(_SPLIT_ZH)
    }
    return {number: words for number, words in used.items() if words}


def _groups() -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for number, group in enumerate(re.split(r"[|\n]", _GROUPS.strip())):
        for word in group.split():
            found[stem(word)] = (*found.get(stem(word), ()), number)
    return found


_GROUPS_OF = _groups()
_SPLIT_ZH = [group.split() for group in re.split(r"[|\n]", _GROUPS_ZH.strip())]


def members(stems: list[str]) -> dict[int, tuple[str, ...]]:
    """Which groups a text uses, and with which members, in order: English to French is not French to English."""
    used: dict[int, tuple[str, ...]] = {}
    for word in stems:
        for group in _GROUPS_OF.get(word, ()):
            if word not in used.get(group, ()):
                used[group] = (*used.get(group, ()), word)
    return used
