-- claim.lua: give a key a place in a group, unless most keys have one.
-- KEYS     1 the set of the keys that have one
-- ARGV[1]  the key  ARGV[2] the most
-- returns  1 if the key has a place, else 0
-- cost     O(1)
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1 then return 1 end
if redis.call('SCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
return redis.call('SADD', KEYS[1], ARGV[1])
