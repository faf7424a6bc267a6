"""The store's scripts for entries: what must happen together, or not at all.

Each namespace has an epoch and each shard an era, both random. A write names the two that it read at look-up, and comes
to nothing if either has changed since: a flush is a new epoch, and whoever removes entries by what they are begins a
new era first. So nothing comes back that was removed while its writing was under way.

The book of an owner is a sorted set, so that it is lost as a whole if it is lost: its entries by the moment at which
they expire (namespace tag, 8 bytes; entry id, 8 bytes; bytes, as digits), and the sum of their bytes under "b". A
moment in milliseconds is more than any sum, so the sum always comes first. Without its book an owner begins at nothing
again.
"""

from __future__ import annotations

# A vector's record (changes.py) has its space behind eight bytes: that is announced with what an index has to forget.
# ARGV 1 to 4 of all that remove: the shard's key prefix, the beginning of a change record of a removal, the stream's
# bound, TTL in ms for a stream without one. KEYS 1 and 2: changes, book.
_REMOVAL = """
local changes, book, prefix = KEYS[1], KEYS[2], ARGV[1]
local function hex(raw)
  return (string.gsub(raw, '.', function(c) return string.format('%02x', string.byte(c)) end))
end
local function announce(change)
  redis.call('XADD', changes, 'MAXLEN', '~', ARGV[3], '*', 'c', change)
end
local function keep_stream()
  if redis.call('PTTL', changes) < 0 then redis.call('PEXPIRE', changes, ARGV[4]) end
end
local function size_of(name)
  return redis.call('STRLEN', prefix .. 'e:' .. name) + redis.call('STRLEN', prefix .. 'v:' .. name)
end
local function strike(member)
  if redis.call('ZREM', book, member) == 1 then
    redis.call('ZINCRBY', book, -tonumber(string.sub(member, 17)), 'b')
  end
end
local function drop_vectors(name, id)
  local removed = 0
  for _, kind in ipairs({'v:', 'n:'}) do
    local space = string.sub(redis.call('GETRANGE', prefix .. kind .. name, 0, 39), 9)
    if #space == 32 then announce(ARGV[2] .. space .. '\\207' .. id) end
    removed = removed + redis.call('DEL', prefix .. kind .. name)
  end
  return removed
end
local function drop(id)
  local name = hex(id)
  return redis.call('DEL', prefix .. 'e:' .. name) + drop_vectors(name, id)
end
"""

# KEYS 3 to 8: epoch, era, entry, vector, blocked, claim. ARGV 5: epoch and 6: era at look-up, 7: record, 8: TTL in ms,
# 9: change ("" for none), 10: the pair of question and answer, 11: namespace tag and 12: entry id, 8 bytes each,
# 13: the owner's bytes and 14: entries at most, 15: TTL in ms of an era, 16: the writer's claim ("" for none).
# What is announced is kept as well: the stream forgets, an index must not. Beside it there may be a vector of the
# embedder that is to follow (next_vectors.py), which goes wherever this one goes.
PUT = (
    _REMOVAL
    + """
if redis.call('GET', KEYS[3]) ~= ARGV[5] or redis.call('GET', KEYS[4]) ~= ARGV[6] then return 'invalidated' end
local holder = ARGV[16] ~= '' and redis.call('GET', KEYS[8])
if holder and holder ~= ARGV[16] then return 'superseded' end
if redis.call('SISMEMBER', KEYS[7], ARGV[10]) == 1 then return 'blocked' end
local ttl, size = tonumber(ARGV[8]), #ARGV[7] + #ARGV[9]
local most_bytes, most_entries = tonumber(ARGV[13]), tonumber(ARGV[14])
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

if size > most_bytes or most_entries < 1 then return 'quota' end
local own = ARGV[11] .. ARGV[12]
strike(own .. string.format('%d', redis.call('STRLEN', KEYS[5]) + redis.call('STRLEN', KEYS[6])))
local bytes = tonumber(redis.call('ZSCORE', book, 'b') or 0)
local entries = math.max(redis.call('ZCARD', book) - 1, 0)
for _ = 1, 64 do
  local member, expires = unpack(redis.call('ZRANGE', book, 1, 1, 'WITHSCORES'))
  if not member then break end
  local is_past = tonumber(expires) <= now
  if not is_past and bytes + size <= most_bytes and entries + 1 <= most_entries then break end
  strike(member)
  bytes, entries = bytes - tonumber(string.sub(member, 17)), entries - 1
  if not is_past then drop(string.sub(member, 9, 16)) end
end
if bytes + size > most_bytes or entries + 1 > most_entries then
  drop(ARGV[12])
  keep_stream()
  return 'quota'
end
redis.call('ZADD', book, now + ttl, own .. string.format('%d', size))
redis.call('ZINCRBY', book, size, 'b')

redis.call('SET', KEYS[5], ARGV[7], 'PX', ttl)
if ARGV[9] ~= '' then
  announce(ARGV[9])
  redis.call('SET', KEYS[6], ARGV[9], 'PX', ttl)
else
  drop_vectors(hex(ARGV[12]), ARGV[12])
end
for _, key in ipairs({KEYS[3], book, changes}) do
  if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, ttl) end
end
if redis.call('PTTL', KEYS[4]) < ARGV[15] / 2 then redis.call('PEXPIRE', KEYS[4], ARGV[15]) end
return 'stored'
"""
)

# ARGV 5: namespace tag, then the entries' ids, 8 bytes each. Returns how many there were.
REMOVE = (
    _REMOVAL
    + """
local removed = 0
for at = 6, #ARGV do
  strike(ARGV[5] .. ARGV[at] .. string.format('%d', size_of(hex(ARGV[at]))))
  if drop(ARGV[at]) > 0 then removed = removed + 1 end
end
keep_stream()
return removed
"""
)

# KEYS 3: blocked. ARGV 5: namespace tag, 6: entry id, 7: the pair of question and answer, 8: TTL in ms of the block.
BLOCK = (
    _REMOVAL
    + """
redis.call('SADD', KEYS[3], ARGV[7])
redis.call('PEXPIRE', KEYS[3], ARGV[8])
strike(ARGV[5] .. ARGV[6] .. string.format('%d', size_of(hex(ARGV[6]))))
drop(ARGV[6])
keep_stream()
return 1
"""
)

# KEYS 3: epoch. ARGV 5: the epoch it was read under, 6: entry id, 7: change with the next vector. Nothing where the
# entry went, was flushed, or is for equal questions only by now.
ADOPT = (
    _REMOVAL
    + """
local name = hex(ARGV[6])
if redis.call('GET', KEYS[3]) ~= ARGV[5] or redis.call('EXISTS', prefix .. 'v:' .. name) == 0 then return 0 end
local ttl = redis.call('PTTL', prefix .. 'e:' .. name)
if ttl <= 0 then return 0 end
redis.call('SET', prefix .. 'n:' .. name, ARGV[7], 'PX', ttl)
announce(ARGV[7])
if redis.call('PTTL', changes) < ttl then redis.call('PEXPIRE', changes, ttl) end
return 1
"""
)

# ARGV 5: namespace tag, 6: entry id. The next vector takes the own one's place; without a next one the own one goes.
SETTLE = (
    _REMOVAL
    + """
local own, name = ARGV[5] .. ARGV[6], hex(ARGV[6])
local before = own .. string.format('%d', size_of(name))
if redis.call('EXISTS', prefix .. 'n:' .. name) == 1 then
  redis.call('RENAME', prefix .. 'n:' .. name, prefix .. 'v:' .. name)
else
  redis.call('DEL', prefix .. 'v:' .. name)
end
local expires = redis.call('ZSCORE', book, before)
if expires then
  strike(before)
  local size = size_of(name)
  redis.call('ZADD', book, expires, own .. string.format('%d', size))
  redis.call('ZINCRBY', book, size, 'b')
end
return 1
"""
)

# KEYS: epoch, changes. ARGV: change, stream bound, TTL in ms, new epoch.
FLUSH = """
redis.call('SET', KEYS[1], ARGV[4], 'PX', ARGV[3])
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[2], '*', 'c', ARGV[1])
if redis.call('PTTL', KEYS[2]) < 0 then redis.call('PEXPIRE', KEYS[2], ARGV[3]) end
return 1
"""

# KEYS: epoch, era. ARGV: a new epoch and a new era, TTL in ms. Whoever comes second gets the first one's.
BEGIN = """
redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[3])
redis.call('SET', KEYS[2], ARGV[2], 'NX', 'PX', ARGV[3])
return redis.call('MGET', KEYS[1], KEYS[2])
"""

# KEYS: entries. ARGV: where to stop. The beginning of each, "" where there is none.
STARTS = """
local found = {}
for at, name in ipairs(KEYS) do found[at] = redis.call('GETRANGE', name, 0, ARGV[1]) end
return found
"""
