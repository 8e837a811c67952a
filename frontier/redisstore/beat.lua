-- beat.lua: note that a worker lives, and tell which workers do.
-- KEYS     1 what each worker says of itself, by its number; 2 when each was heard
--          last, ms; 3 what each was told is added
-- ARGV[1]  its number  ARGV[2] what it says; empty: it leaves  ARGV[3] what it was
--          told is added; empty: nothing since  ARGV[4] ms after which a worker
--          that was not heard counts as dead
-- returns  the numbers of the workers that live
-- cost     O(log workers), O(workers that live)
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
