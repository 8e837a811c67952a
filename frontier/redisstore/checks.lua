-- checks.lua: return hosts of checks that are due in a partition. Hosts of other items,
-- which may be many, are skipped.
-- KEYS     1 meta, 2 due
-- ARGV     2 the maximum number of hosts
--          3 a random number in [0, 1), which chooses where the search begins
-- returns  the hosts; none before the end of a hold (hold.lua), and none in an epoch that
--            is new to the partition
-- cost     O(log n) and O(1,000): if the partition has more hosts, another call begins
--            elsewhere
local known = redis.call('HMGET', KEYS[1], 'epoch', 'hold', 'check:queued')
if known[1] ~= EPOCH or (tonumber(known[2]) or 0) > now() or tonumber(known[3] or 0) == 0 then return {} end
local most, found = 1000, {}
local from = math.max(math.floor(ARGV[3] * redis.call('ZCARD', KEYS[2])) - most / 2, 0)
local hosts = redis.call('ZRANGE', KEYS[2], int(from), int(from + most), 'WITHSCORES')
for i = 1, #hosts, 2 do
  if tonumber(hosts[i + 1]) > now() or #found == tonumber(ARGV[2]) then break end
  if hosts[i]:sub(1, 6) == 'check ' then found[#found + 1] = hosts[i] end
end
return found
