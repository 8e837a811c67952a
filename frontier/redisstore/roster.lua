-- roster.lua: tell which workers the crawl has and had.
-- KEYS     1 what each worker says of itself, by its number; 2 when each was heard
--          last, ms
-- returns  the time, ms; numbers, each with what its worker says; numbers, each
--          with the time when its worker was heard
-- cost     O(workers that the crawl ever had)
local time = redis.call('TIME')
return {
  time[1] * 1000 + math.floor(time[2] / 1000),
  redis.call('HGETALL', KEYS[1]),
  redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES'),
}
