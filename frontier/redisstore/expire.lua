-- expire.lua: end a lease that ran out. Items that were not completed return to the
-- queues. For the items that the worker may have requested, one more delivery is counted.
-- The host is due one delay after the end of the lease, because the worker may have
-- sent a request at the last moment. If the worker has stored a later due time, the
-- host is due then. If its worker makes no requests (lease.lua), the due time stays.
-- KEYS     as in host.lua
-- ARGV     2 the host key  3 the delay if the host's state has none, ms
--          4 the maximum count of deliveries
-- returns  1, or 0 if the host is not leased or its lease has not run out
-- cost     O(items of the lease)
local ranOut = tonumber(redis.call('ZSCORE', LEASED, HOST))
if not ranOut or ranOut > now() then return 0 end

local inFlight = tonumber(redis.call('HGET', ACTIVE, 'f') or 0)
local items, back, again = holdings({})
local was = standing()
for i = 1, math.min(inFlight, #items) do
  local entry = items[i].entry
  local deliveries = math.min(entry:byte(3) + 1, tonumber(ARGV[4]))
  items[i].entry = entry:sub(1, 2) .. string.char(deliveries) .. entry:sub(4)
end
local due = was.due
if inFlight > 0 then due = math.max(due, ranOut + (was.delay or tonumber(ARGV[3]))) end

add('leased', -#items)
add('queued', #items)
local write = free(items, back, again, due, was)
local sums = totals()

redis.call('HSET', STATE, 'u', int(due))
write()
all('HSET', META, sums)
return 1
