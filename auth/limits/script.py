"""The script over the shared buckets. All it decides, it decides at one moment of the store's clock.

A bucket that refills is two moments (µs, as doubles): when it is full again, and since when it has not been
full. A full bucket is no key at all. Leases are a sorted set by when they end; a budget is a sum.

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
  local moments = redis.call('GET', key)
  if not moments then return now, now end
  local full, since = struct.unpack('<dd', moments)
  if full <= now then return now, now end
  return full, math.min(since, now)
end
local function write(key, full, since)
  if full <= now then return redis.call('DEL', key) end
  redis.call('SET', key, struct.pack('<dd', full, since), 'PX', math.ceil((full - now) / 1000))
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
# an hour of refilling. There is one µs of tolerance, as a double is good for a quarter of one.
#
# First each bucket says what it would be after, then, if all allow it, all are written.
_TAKE: Final = """
local fits, full, since, before, after = ARGV[1] == 'take', {}, {}, {0, now}, {1, now}
for i, key in ipairs(KEYS) do
  local kind, capacity, span, amount = ARGV[4*i-2], tonumber(ARGV[4*i-1]), tonumber(ARGV[4*i]), ARGV[4*i+1]
  local wait, left, reset, left_after, reset_after = 0, 0, 0, 0, 0
  if kind == 'c' then
    left = capacity - redis.call('ZCOUNT', key, now, '+inf')
    left_after = left - 1
    if left < 1 then wait = 1e6 end
  elseif kind == 'b' then
    local spent = tonumber(redis.call('GET', key) or 0)
    reset = math.max(0, span * 1e6 - now)
    reset_after = reset
    if tonumber(amount) > 0 and spent + amount > capacity * (1 + 1e-9) then wait = -1 end
    left, left_after = string.format('%.9f', capacity - spent), string.format('%.9f', capacity - spent - amount)
  else
    local token, cost = span / capacity, math.min(tonumber(amount), capacity)
    full[i], since[i] = read(key)
    reset = math.min(full[i] - now, kind == 'r' and span or span * 60)
    reset_after = reset + cost * token
    full[i] = now + reset_after
    if cost > 0 and reset_after > span + 1 then wait = math.ceil(reset_after - span) end
    left, left_after = math.floor((span - reset + 1) / token), math.floor((span - reset_after + 1) / token)
    reset, reset_after = math.ceil(reset), math.ceil(reset_after)
  end
  fits = fits and wait == 0
  before[3*i], before[3*i+1], before[3*i+2] = wait, left, reset
  after[3*i], after[3*i+1], after[3*i+2] = wait, left_after, reset_after
end
if not fits then return before end
for i, key in ipairs(KEYS) do
  local kind, span, amount = ARGV[4*i-2], ARGV[4*i], ARGV[4*i+1]
  if kind == 'c' then
    redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
    redis.call('ZADD', key, now + span, amount)
    redis.call('PEXPIRE', key, math.ceil(span / 1000))
  elseif kind == 'b' then
    redis.call('INCRBYFLOAT', key, amount)
    redis.call('EXPIREAT', key, span + 86400)
  else
    write(key, full[i], since[i])
  end
end
return after
"""

BUCKETS: Final = _RATE + _RENEW + _SETTLE + _TAKE
