"""The scripts of the directory in the store: each reads or changes records and their lists as one.

A record is a field of the hash KEYS[1]. Lists are sorted sets whose scores are all 0, so that their order is
that of their members. What a script changes it ends with how many replicas are connected; -1: the store does not say.
"""

from __future__ import annotations

_REPLICAS = """
local info = redis.pcall('INFO', 'replication')
local replicas = -1
if type(info) == 'string' then
  replicas = tonumber(string.match(info, 'connected_slaves:(%d+)')) or -1
end
"""

# A key, and the service and tenant that it names.
FIND = """
local key = redis.call('HGET', KEYS[1], 'k/' .. ARGV[1])
if not key then return false end
local tenant, service = string.match(key, '^([^/ ]+)/([^/ ]+) ')
if not tenant then return {key, false, false} end
return {
  key,
  redis.call('HGET', KEYS[1], 's/' .. tenant .. '/' .. service),
  redis.call('HGET', KEYS[1], 't/' .. tenant),
}
"""

# ARGV: field, value, member and number of lists of the new record, then the same of those it belongs to, which
# are added where they are missing. KEYS[2..]: the lists of each in turn.
ADD = (
    _REPLICAS
    + """
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return {'there'} end
local list = 2
for at = 1, #ARGV, 4 do
  local is_new = redis.call('HSETNX', KEYS[1], ARGV[at], ARGV[at + 1]) == 1
  for _ = 1, tonumber(ARGV[at + 3]) do
    if is_new then redis.call('ZADD', KEYS[list], 0, ARGV[at + 2]) end
    list = list + 1
  end
end
return {'ok', replicas}
"""
)

# ARGV: field, the value it must have, the new value.
CHANGE = (
    _REPLICAS
    + """
local present = redis.call('HGET', KEYS[1], ARGV[1])
if present ~= ARGV[2] then return {'other', present} end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return {'ok', replicas}
"""
)

# ARGV: field, member, and the range of KEYS[2] that must be empty. KEYS[3]: when keys were last used; KEYS[4..]:
# the lists of the record.
DELETE = (
    _REPLICAS
    + """
if redis.call('ZLEXCOUNT', KEYS[2], ARGV[3], ARGV[4]) > 0 then return {'used'} end
local present = redis.call('HGET', KEYS[1], ARGV[1])
if not present then return {'absent'} end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
for list = 4, #KEYS do redis.call('ZREM', KEYS[list], ARGV[2]) end
return {'ok', replicas}
"""
)

# ARGV: pairs of a key's field and a second. A key that was used within the minute before is left alone.
NOTE_USE = """
for at = 1, #ARGV, 2 do
  local known = tonumber(redis.call('HGET', KEYS[2], ARGV[at]) or '') or 0
  if tonumber(ARGV[at + 1]) >= known + 60 and redis.call('HEXISTS', KEYS[1], ARGV[at]) == 1 then
    redis.call('HSET', KEYS[2], ARGV[at], ARGV[at + 1])
  end
end
return 0
"""
