-- store.lua: store or remove something, if the server that does it still has the lease.
-- KEYS     1 the lease (hash)
--          2 the key
-- ARGV[1]  the term of the server
-- ARGV[2]  SET with a value and its time to live, ms; HSET with a field and a value; or HDEL with a field
-- returns  1, or 0 if another term has begun
-- cost     O(1)
if redis.call('HGET', KEYS[1], 'term') ~= ARGV[1] then return 0 end
if ARGV[2] == 'SET' then
  redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4])
elseif ARGV[2] == 'HSET' then
  redis.call('HSET', KEYS[2], ARGV[3], ARGV[4])
else
  redis.call('HDEL', KEYS[2], ARGV[3])
end
return 1
