-- ready.lua: queue delayed items of one host that are ready. Other items are skipped.
-- KEYS     as in host.lua
-- ARGV     2 the host key
--          then members of delayed. A member has a number of 8 bytes, the host key, a
--            zero byte and an entry
-- returns  how many items were queued
-- cost     O(members)
local queues, members = {{}, {}, {}}, {}
for i = 3, #ARGV do
  local ready = tonumber(redis.call('ZSCORE', DELAYED, ARGV[i]))
  if ready and ready <= now() then
    local entry = ARGV[i]:sub(8 + #HOST + 2)
    local queue = queues[queueOf(entry)]
    queue[#queue + 1] = entry
    members[#members + 1] = ARGV[i]
  end
end
local was = standing()
local leased = redis.call('EXISTS', ACTIVE) == 1
if #members == 0 then return 0 end
add('delayed', -#members)
local sums = totals()

for i, queue in ipairs(QUEUES) do all('RPUSH', queue, queues[i]) end
all('ZREM', DELAYED, members)
redis.call('HINCRBY', STATE, 'd', -#members)
if not leased and not was.listed then
  redis.call('ZADD', DUE, int(math.max(was.due, now())), HOST)
end
all('HSET', META, sums)
return #members
