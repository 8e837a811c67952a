-- unlock.lua: release a lock, unless it expired and another worker has it now.
-- KEYS     1 the lock
-- ARGV[1]  the value that the caller set it to
-- returns  1, or 0 if the caller does not have the lock any more
-- cost     O(1)
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
