-- retry.lua: queue failed items of a host again, which follow each other in its list. Items that failed under
-- the present lease of the host are set aside until it ends. Items whose URL is
-- queued or leased already stay failed, and so do items with the option "o"; they keep their
-- places in the list. Without an exact set, bulk items stay failed if their URL was ever
-- promoted, because the promotion has already queued the URL again.
-- KEYS     as in host.lua; 10 the host's failed items, 11 the hosts that have any,
--          12 exact, 13 the progress of a retry that can be repeated, only if ARGV[5] is not ''
-- ARGV     2 the host key
--          3 the field later of meta, as the caller knows it
--          4 the latest round of the new entries, or of an item before
--          5 how long the progress is kept at least, ms; '' if the retry cannot be repeated
--          6 how many items of the list are before these
--          then four arguments for each item:
--            its value in the list of failed items
--            its new entry
--            its fingerprint, or ''. If exact contains the fingerprint, the item stays
--              failed
--            "1" to add the fingerprint to exact; "o" if the item stays failed, because a
--              later round of its URL has begun, or it is not selected; otherwise ''
-- returns  how many were queued, or -1 if the items are not at this place of the list
--          any more, or if the field later has changed
-- cost     O(items and those before them in the list)
local FAILED, FAILEDHOSTS, EXACT = KEYS[10], KEYS[11], KEYS[12]
local n, before = (#ARGV - 6) / 4, tonumber(ARGV[6])
for i, value in ipairs(redis.call('LRANGE', FAILED, before, before + n - 1)) do
  if value ~= ARGV[4 * i + 3] then return -1 end
end
local used = redis.call('HMGET', META, 'later', 'top')
if (used[1] or '0') ~= ARGV[3] then return -1 end
local total = redis.call('LLEN', FAILED)
if total < before + n then return -1 end
redis.call('SCARD', FAILEDHOSTS)
local lease = redis.call('HMGET', ACTIVE, 'n', 'a', 'x')
local was = standing()

-- If an exact URL is in the list several times, only its last item is queued again.
local prints, waits, kept, offered = {}, {}, {}, n
for i = n, 1, -1 do
  local print = ARGV[4 * i + 5]
  kept[i] = ARGV[4 * i + 6] == 'o' or print ~= '' and (waits[print] or redis.call('SISMEMBER', EXACT, print) == 1)
  if kept[i] then
    offered = offered - 1
  elseif ARGV[4 * i + 6] == '1' then
    waits[print], prints[#prints + 1] = true, print
  end
end
if offered == 0 then return 0 end

local own = lease[1] and total - lease[3] - before or n -- the items after this number failed under the lease
local queues, aside = {{}, {}, {}}, {}
for i = 1, n do
  local entry = not kept[i] and ARGV[4 * i + 4]
  if entry and i <= own then
    local queue = queues[queueOf(entry)]
    queue[#queue + 1] = entry
  elseif entry then
    aside[#aside + 1], aside[#aside + 2] = 'r' .. int(lease[1] + #aside / 2 + 1), '0:' .. entry
  end
end
local waiting = #aside / 2
if not was.counted or not lease[1] and was.waiting + was.delayed == 0 then add('hosts', 1) end
add('failed', -offered)
add('queued', offered)
add('rounds', offered)
local sums = totals()

for i, queue in ipairs(QUEUES) do all('RPUSH', queue, queues[i]) end
if waiting > 0 then
  aside[#aside + 1], aside[#aside + 2] = 'n', int(lease[1] + waiting)
  aside[#aside + 1], aside[#aside + 2] = 'a', lease[2] + waiting
  aside[#aside + 1], aside[#aside + 2] = 'x', lease[3] - waiting
  all('HSET', ACTIVE, aside)
end
all('SADD', EXACT, prints)
if not was.counted then redis.call('HDEL', ACTIVE, 's') end
if before + n == offered then
  redis.call('LTRIM', FAILED, n, -1)
else
  for i = 1, n do
    if not kept[i] then redis.call('LSET', FAILED, before + i - 1, '') end
  end
  redis.call('LREM', FAILED, offered, '')
end
if total == offered then redis.call('SREM', FAILEDHOSTS, HOST) end
if ARGV[5] ~= '' then
  redis.call('HINCRBY', KEYS[13], 'n', int(offered))
  if redis.call('PTTL', KEYS[13]) < tonumber(ARGV[5]) then redis.call('PEXPIRE', KEYS[13], ARGV[5]) end
end
redis.call('HDEL', STATE, 'b')
redis.call('PERSIST', STATE)
if not lease[1] and not was.listed then
  redis.call('ZADD', DUE, int(math.max(was.due, now())), HOST)
end
sums[#sums + 1], sums[#sums + 2] = 'top', int(math.max(tonumber(used[2] or 0), tonumber(ARGV[4])))
all('HSET', META, sums)
return offered
