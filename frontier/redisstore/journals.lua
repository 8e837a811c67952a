-- journals.lua: return all journals whose events are not wholly delivered.
-- KEYS     1 all journals
-- returns  the time, ms; a list of fields, each with the time of its last report, ms, and the description
-- cost     O(journals)
local time = redis.call('TIME')
return {
  string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)),
  redis.call('HGETALL', KEYS[1]),
}
