-- move.lua: change scores of a sorted set, if they are still what the caller knows.
-- KEYS     1 due or delayed
-- ARGV     2 then for each member: its name, its score, its new score
-- returns  how many scores were changed
-- cost     O(members * log n)
local moved = 0
for i = 2, #ARGV, 3 do
  if redis.call('ZSCORE', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    redis.call('ZADD', KEYS[1], ARGV[i + 2], ARGV[i])
    moved = moved + 1
  end
end
return moved
