"""The script over the shared buckets. All it decides, it decides at one moment of the store's clock.

A bucket that refills is two moments (µs): when it is full again, and since when it has not been full. A full
bucket is no key at all. Leases are a sorted set by when they end; a budget is a sum.

KEYS are buckets, ARGV[1] says what is done with them. For each bucket there follow its kind, its capacity, its
span and an amount. The span is the µs from empty to full (r, t), the µs of a lease (c), or the second in which a
budget's period ends (b); the amount of a lease is its name.

It is one script, not three, so that a server which can take can settle as well: a script that must be loaded
first comes late, after commands that were sent after it.
"""

from __future__ import annotations

from typing import Final

# The clock may be set back: then it is not known since when a bucket has not been full.
_RATE: Final = """
local time = redis.call('TIME')
local now = time[1] * 1e6 + time[2]
local function read(key)
  local full, since = string.match(redis.call('GET', key) or '', '^(%S+) (%S+)$')
  full, since = tonumber(full) or now, tonumber(since) or now
  if full <= now then return now, now end
  return full, math.min(since, now)
end
local function write(key, full, since)
  if full <= now then return redis.call('DEL', key) end
  redis.call('SET', key, string.format('%.2f %.2f', full, since), 'PX', math.ceil((full - now) / 1000))
end
"""

# ARGV[2]: µs of a lease; then for each bucket how many leases, and their names.
_RENEW: Final = """
if ARGV[1] == 'renew' then
  local at = 3
  for _, key in ipairs(KEYS) do
    for i = at + 1, at + ARGV[at] do redis.call('ZADD', key, now + ARGV[2], ARGV[i]) end
    redis.call('PEXPIRE', key, math.ceil(ARGV[2] / 1000))
    at = at + ARGV[at] + 1
  end
  return
end
"""

# ARGV[2]: the moment of the taking. The amount is what was used beyond what was asked, negative where it was
# less. A bucket that has been full since the taking has got everything back already. Budgets that are gone
# with their period stay gone.
_SETTLE: Final = """
if ARGV[1] == 'settle' then
  local taken = tonumber(ARGV[2])
  for i, key in ipairs(KEYS) do
    local kind, capacity, span, amount = ARGV[4*i-1], tonumber(ARGV[4*i]), tonumber(ARGV[4*i+1]), ARGV[4*i+2]
    if kind == 'c' then
      redis.call('ZREM', key, amount)
    elseif kind == 't' then
      local full, since = read(key)
      amount = tonumber(amount)
      if amount > 0 or since <= taken then write(key, full + amount * span / capacity, since) end
    elseif tonumber(amount) > 0 or redis.call('EXISTS', key) == 1 then
      redis.call('INCRBYFLOAT', key, amount)
      redis.call('EXPIREAT', key, span + 86400)
    end
  end
  return
end
"""

# `take`, or `look` to take nothing. The reply: whether it was taken, the moment, and for each bucket µs to wait
# (0: it fits, -1: waiting does not help), what is left, and µs until it is full. A refusal writes nothing.
#
# However the clock was set back, requests are never further below empty than empty, and tokens never more than
# an hour of refilling. There is one µs of tolerance, as moments are kept to a quarter of one.
#
# Each kind tells what there is before and after (wait, left, reset, left, reset), and how to take it.
_TAKE: Final = """
local function rate(key, capacity, span, amount, deepest)
  local token = span / capacity
  local full, since = read(key)
  local missing = math.min(full - now, deepest)
  local wanted = missing + math.min(amount, capacity) * token
  local wait = 0
  if amount > 0 and wanted > span + 1 then wait = math.ceil(wanted - span) end
  return wait, math.floor((span - missing + 1) / token), math.ceil(missing),
    math.floor((span - wanted + 1) / token), math.ceil(wanted),
    function() write(key, now + wanted, since) end
end
local kinds = {}
function kinds.r(key, capacity, span, amount) return rate(key, capacity, span, tonumber(amount), span) end
function kinds.t(key, capacity, span, amount) return rate(key, capacity, span, tonumber(amount), span * 60) end
function kinds.c(key, capacity, span, lease)
  local left = capacity - redis.call('ZCOUNT', key, now, '+inf')
  return left < 1 and 1e6 or 0, left, 0, left - 1, 0, function()
    redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
    redis.call('ZADD', key, now + span, lease)
    redis.call('PEXPIRE', key, math.ceil(span / 1000))
  end
end
function kinds.b(key, capacity, ends, amount)
  local left = capacity - tonumber(redis.call('GET', key) or 0)
  local then_left, reset = left - amount, math.max(0, ends * 1e6 - now)
  local is_spent = tonumber(amount) > 0 and then_left < -1e-9 * capacity
  return is_spent and -1 or 0, string.format('%.9f', left), reset, string.format('%.9f', then_left), reset,
    function()
      redis.call('INCRBYFLOAT', key, amount)
      redis.call('EXPIREAT', key, ends + 86400)
    end
end
local found, fits = {}, ARGV[1] == 'take'
for i, key in ipairs(KEYS) do
  local capacity, span = tonumber(ARGV[4*i-1]), tonumber(ARGV[4*i])
  found[i] = {kinds[ARGV[4*i-2]](key, capacity, span, ARGV[4*i+1])}
  fits = fits and found[i][1] == 0
end
local reply = {fits and 1 or 0, now}
for i, bucket in ipairs(found) do
  if fits then bucket[6]() end
  local left = fits and 4 or 2
  reply[3*i], reply[3*i+1], reply[3*i+2] = bucket[1], bucket[left], bucket[left+1]
end
return reply
"""

BUCKETS: Final = _RATE + _RENEW + _SETTLE + _TAKE
