-- lease.lua: take, extend or end the lease of the one server that uses this Redis.
-- KEYS     1 the lease (hash): holder, term, deadline (ms)
-- ARGV[1]  the holder
-- ARGV[2]  for how long, ms; 0 ends the lease
-- ARGV[3]  the term that the holder has; 0 takes the lease, in a new term, if no other holder has it
-- returns  the term, or 0 if another term has begun or another holder has the lease; and for how long, ms
-- cost     O(1)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local lease = redis.call('HMGET', KEYS[1], 'holder', 'term', 'deadline')
local term, left = tonumber(lease[2] or '0'), tonumber(lease[3] or '0') - now
if ARGV[3] == '0' then
  if lease[1] ~= ARGV[1] and left > 0 then return {0, left} end
  term = term + 1
elseif term ~= tonumber(ARGV[3]) then
  return {0, left}
end
redis.call('HSET', KEYS[1], 'holder', ARGV[1], 'term', string.format('%.0f', term),
  'deadline', string.format('%.0f', now + ARGV[2]))
return {term, 0}
