-- journal.lua: store how far a relay has delivered the events in one worker's directory.
-- KEYS     1 all journals
-- ARGV[1]  the journal and the relay, as a field
-- ARGV[2]  the description, JSON
-- returns  1
-- cost     O(1)
local time = redis.call('TIME')
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)) .. ' ' .. ARGV[2])
return 1
