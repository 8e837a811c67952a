-- turn.lua: begin a generation of a partition. Answers that rely on an earlier one are not
-- valid any more.
-- KEYS     1 meta
-- ARGV     2 the generation, which no other has
-- returns  1, or 0 if the partition is lost
-- cost     O(1)
if redis.call('HEXISTS', KEYS[1], 'layers') == 0 then return 0 end
redis.call('HSET', KEYS[1], 'generation', ARGV[2])
return 1
