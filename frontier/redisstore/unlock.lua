-- unlock.lua: give up a lock, unless it ran out and is another's by now.
-- KEYS     1 the lock
-- ARGV[1]  what its holder set it to
-- returns  1, or 0 if it is not the caller's any more
-- cost     O(1)
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
