-- extend.lua: restart the time of a lease, and add more items of its host to the lease.
-- KEYS     as in host.lua; 10 the places of the host's site (place.lua)
-- ARGV     2 the host key
--          3 the lease's id
--          4 how long the lease lasts from now, ms
--          5 the number of the first item that the caller does not have
--          6 how many items should be open
-- returns  0 if the lease is not held. Otherwise 1, and the number and the entry
--          of each open item from number ARGV[5] on
-- cost     O(items returned)
local lease = redis.call('HMGET', ACTIVE, 'i', 'n', 'a', 's', 'f')
if not deadline(lease[1], ARGV[3]) then return {0} end

local last = tonumber(lease[2])
local reply = {1}
for number = tonumber(ARGV[5]), last do
  local entry = redis.call('HGET', ACTIVE, int(number))
  if entry then reply[#reply + 1], reply[#reply + 2] = number, entry end
end
local entries, taken = take(tonumber(ARGV[6]) - open(lease[3], lease[4]))
local sums = totals()
local delay = tonumber(lease[5]) > 0 and placeOf(KEYS[10]) -- a caller that makes no requests has no place

redis.call('ZADD', LEASED, int(soon() + tonumber(ARGV[4])), HOST)
if delay then hold(KEYS[10], soon() + tonumber(ARGV[4]) + delay, delay) end
if #entries > 0 then
  hand(entries, taken, last, {'n', int(last + #entries)})
  all('HSET', META, sums)
  for i, entry in ipairs(entries) do
    reply[#reply + 1], reply[#reply + 2] = last + i, entry
  end
end
return reply
