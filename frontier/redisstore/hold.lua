-- hold.lua: in an epoch that is new to a partition, keep it from lending for as
-- long as a lease lasts: the server may have forgotten leases that are used.
-- KEYS     1 meta
-- ARGV     2 how long a lease lasts, ms
-- returns  1, or 0 if the epoch is not new, or the partition was lost: that is seen
--          by its having none
-- cost     O(1)
local known = redis.call('HGET', KEYS[1], 'epoch')
if not known or known == EPOCH then return 0 end
redis.call('HSET', KEYS[1], 'epoch', EPOCH, 'hold', int(soon() + tonumber(ARGV[2])))
return 1
