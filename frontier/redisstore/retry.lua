-- retry.lua: offer the first failed items of a host again. Those that failed
-- under the lease that has the host now stay aside until it ends.
-- KEYS     as in host.lua; 10 the host's failed items, 11 the hosts that have any
-- ARGV     2 the host key, then for each item its failed value and its new entry
-- returns  1, or 0 if the failed items are not these any more
-- cost     O(items)
local FAILED, FAILEDHOSTS = KEYS[10], KEYS[11]
local n = (#ARGV - 2) / 2
for i, value in ipairs(redis.call('LRANGE', FAILED, 0, n - 1)) do
  if value ~= ARGV[2 * i + 1] then return 0 end
end
local total = redis.call('LLEN', FAILED)
if total < n then return 0 end
redis.call('SCARD', FAILEDHOSTS)
local lease = redis.call('HMGET', ACTIVE, 'n', 'a', 'x')
local was = standing()

local mine = lease[1] and math.max(n - (total - lease[3]), 0) or 0 -- failed under the lease
local queues, aside = {{}, {}, {}}, {}
for i = 1, n do
  local entry = ARGV[2 * i + 2]
  if i <= n - mine then
    local queue = queues[queueOf(entry)]
    queue[#queue + 1] = entry
  else
    aside[#aside + 1], aside[#aside + 2] = 'r' .. int(lease[1] + i - (n - mine)), '0:' .. entry
  end
end
if not was.counted or not lease[1] and was.waiting + was.delayed == 0 then add('hosts', 1) end
add('failed', -n)
add('queued', n)
add('rounds', n)
local sums = totals()

for i, queue in ipairs(QUEUES) do all('RPUSH', queue, queues[i]) end
if mine > 0 then
  aside[#aside + 1], aside[#aside + 2] = 'n', int(lease[1] + mine)
  aside[#aside + 1], aside[#aside + 2] = 'a', lease[2] + mine
  aside[#aside + 1], aside[#aside + 2] = 'x', lease[3] - mine
  all('HSET', ACTIVE, aside)
end
if not was.counted then redis.call('HDEL', ACTIVE, 's') end
redis.call('LTRIM', FAILED, n, -1)
if total == n then redis.call('SREM', FAILEDHOSTS, HOST) end
redis.call('HDEL', STATE, 'b')
redis.call('PERSIST', STATE)
if not lease[1] and not was.listed then
  redis.call('ZADD', DUE, int(math.max(was.due, now())), HOST)
end
all('HSET', META, sums)
return 1
