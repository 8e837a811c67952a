-- confirm.lua: remember an event whose handler has succeeded.
-- KEYS     the event's key
-- ARGV     1 the lease
--          2 the value of a confirmed event
--          3 the window in milliseconds
-- returns  1 if the event is confirmed, 0 if another delivery has a lease
-- cost     O(1)
-- A missing key is set too, because then no other delivery has taken a lease.
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] and holder ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
