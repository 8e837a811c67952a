-- hold.lua: in an epoch that is new to a partition, forbid leases for as long as a
-- lease lasts, because the server may have lost leases that are still in use.
-- KEYS     1 meta
-- ARGV     2 how long a lease lasts, ms
-- returns  1, or 0 if the epoch is not new or the partition was lost (then it has no
--          epoch)
-- cost     O(1)
local known = redis.call('HGET', KEYS[1], 'epoch')
if not known or known == EPOCH then return 0 end
redis.call('HSET', KEYS[1], 'epoch', EPOCH, 'hold', int(soon() + tonumber(ARGV[2])))
return 1
