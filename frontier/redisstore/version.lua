-- version.lua: store a version of the crawl's policy.
-- KEYS     1 the versions
-- ARGV[1]  the number of the version
-- ARGV[2]  its text, with all values that were ever changed
-- ARGV[3]  its text for the history
-- ARGV[4]  '1' if the newest version must be the one before, or this one; '' if it must be an older one, or this one
-- ARGV[5]  how many versions the history has
-- returns  1 if the version is now the newest one; otherwise 0
-- cost     O(1)
local number = tonumber(ARGV[1])
local newest = tonumber(redis.call('HGET', KEYS[1], 'number') or '0')
if newest > number or ARGV[4] == '1' and newest < number - 1 then return 0 end
if newest == number and redis.call('HGET', KEYS[1], 'newest') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'number', ARGV[1], 'newest', ARGV[2], ARGV[1], ARGV[3])
redis.call('HDEL', KEYS[1], string.format('%.0f', number - tonumber(ARGV[5])))
return 1
