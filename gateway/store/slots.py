"""Decides which slot of a cluster a command belongs to, and how one that belongs to several is split."""

from __future__ import annotations

import binascii
import math
from collections.abc import Mapping
from dataclasses import dataclass

from .address import Argument, Command

SLOTS = 16_384

_EACH_KEY_FIRST = """
    GET SET GETDEL GETEX GETRANGE SETNX APPEND STRLEN INCR INCRBY INCRBYFLOAT DECR DECRBY DEL UNLINK EXISTS
    EXPIRE PEXPIRE EXPIREAT PEXPIREAT PERSIST TTL PTTL TYPE DUMP RESTORE
    HGET HSET HSETNX HDEL HGETALL HMGET HINCRBY HINCRBYFLOAT HLEN HKEYS HVALS HEXISTS HSCAN
    ZADD ZREM ZRANGE ZREVRANGE ZRANGEBYSCORE ZRANGEBYLEX ZREVRANGEBYLEX ZCOUNT ZLEXCOUNT ZCARD ZSCORE ZMSCORE
    ZINCRBY ZREMRANGEBYSCORE ZREMRANGEBYRANK ZREMRANGEBYLEX ZSCAN
    SADD SREM SMEMBERS SISMEMBER SCARD SSCAN LPUSH RPUSH LPOP RPOP LRANGE LTRIM LLEN BLPOP
    XADD XRANGE XREVRANGE XLEN XTRIM XDEL
"""
_WITHOUT_KEY = "PING ECHO TIME INFO CONFIG SCRIPT CLUSTER COMMAND DBSIZE FLUSHALL FLUSHDB"

_KEY_AT: dict[Argument, int] = {
    **dict.fromkeys(_EACH_KEY_FIRST.split(), 1),
    **dict.fromkeys(("XINFO", "XGROUP", "OBJECT"), 2),
    **dict.fromkeys(("EVAL", "EVALSHA"), 3),
    **dict.fromkeys(_WITHOUT_KEY.split(), 0),
}


@dataclass(frozen=True, slots=True)
class Part:
    """What of a command belongs to one slot; `positions` are those of its keys among all keys."""

    command: Command
    positions: tuple[int, ...]


def slot_of(key: Argument) -> int:
    """By the part in braces, if there is one, so that keys which share it lie together."""
    name = key if isinstance(key, bytes) else str(key).encode()
    start = name.find(b"{")
    if start >= 0:
        end = name.find(b"}", start + 1)
        if end > start + 1:
            name = name[start + 1 : end]
    return binascii.crc_hqx(name, 0) % SLOTS


def key_of(command: Command) -> Argument | None:
    """The key that decides; None for a command without one. Raises ValueError for a command not in the table:
    sending it to any server would work in tests on a single one only."""
    name = command[0]
    if name == "MGET":
        return command[1]
    if name == "XREAD":
        return command[command.index("STREAMS") + 1]
    at = _KEY_AT.get(name)
    if at is None:
        raise ValueError(f"Where the keys of {name!r} are is not known: add it to gateway/store/slots.py.")
    if at == 0 or (at == 3 and not int(command[2])):
        return None
    return command[at]


def parts_of(command: Command) -> Mapping[int, Part] | None:
    """By slot, the parts of an MGET or XREAD (without its BLOCK) whose keys lie in several; else None.

    Raises ValueError for an XREAD from `$`: parts are asked again and again, and `$` is another place each time.
    """
    tail: Command = ()
    if command[0] == "MGET":
        head, keys = command[:1], command[1:]
    elif command[0] == "XREAD":
        head, keys, tail = _streams(command)
    else:
        return None
    slots = [slot_of(key) for key in keys]
    if len(set(slots)) == 1:
        return None
    if "$" in tail:
        raise ValueError("XREAD over several slots of a cluster needs a place in each stream other than $.")
    parts = {}
    for slot in dict.fromkeys(slots):
        positions = tuple(at for at, its in enumerate(slots) if its == slot)
        here = (*head, *(keys[at] for at in positions), *(tail[at] for at in positions if tail))
        parts[slot] = Part(here, positions)
    return parts


def block_s_of(command: Command) -> float:
    """How long an XREAD may block; 0 if it does not."""
    options = command[: command.index("STREAMS")]
    if "BLOCK" not in options:
        return 0.0
    return int(options[options.index("BLOCK") + 1]) / 1000 or math.inf


def _streams(command: Command) -> tuple[Command, Command, Command]:
    """The beginning without BLOCK, the keys, and the place in each."""
    at = command.index("STREAMS")
    options, rest = command[:at], command[at + 1 :]
    if "BLOCK" in options:
        block = options.index("BLOCK")
        options = options[:block] + options[block + 2 :]
    return (*options, "STREAMS"), rest[: len(rest) // 2], rest[len(rest) // 2 :]
