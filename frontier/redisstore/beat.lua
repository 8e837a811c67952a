-- beat.lua: store the heartbeat of a worker, and return all workers that are alive.
-- KEYS     1 the description of each worker, by its number
--          2 the time of each worker's last heartbeat, ms
--          3 how many items each worker has added
-- ARGV[1]  the worker's number
-- ARGV[2]  its description, '' if it has ended
-- ARGV[3]  how many items it has added, '' if that has not changed
-- ARGV[4]  the time without a heartbeat, ms, after which a worker counts as dead
-- returns  the numbers of the workers that are alive
-- cost     O(log workers), O(workers that are alive)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if ARGV[3] ~= '' then redis.call('HSET', KEYS[3], ARGV[1], ARGV[3]) end
if ARGV[2] == '' then
  redis.call('ZREM', KEYS[2], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
  redis.call('ZADD', KEYS[2], string.format('%.0f', now), ARGV[1])
end
return redis.call('ZRANGEBYSCORE', KEYS[2], string.format('%.0f', now - tonumber(ARGV[4])), '+inf')
