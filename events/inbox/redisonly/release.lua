-- release.lua: give a lease back, so that the next delivery can begin at once.
-- KEYS     the event's key
-- ARGV     the lease
-- returns  1 if the lease was given back, 0 if the key has another value or does not exist
-- cost     O(1)
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
