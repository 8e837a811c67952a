-- roster.lua: return all workers that the crawl has or had.
-- KEYS     1 the description of each worker, by its number; 2 the time of each
--          worker's last heartbeat, ms
-- returns  the time, ms; a list of numbers, each with the worker's description; a
--          list of numbers, each with the time of the worker's last heartbeat
-- cost     O(workers that the crawl ever had)
local time = redis.call('TIME')
return {
  time[1] * 1000 + math.floor(time[2] / 1000),
  redis.call('HGETALL', KEYS[1]),
  redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES'),
}
