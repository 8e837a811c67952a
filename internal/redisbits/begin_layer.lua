-- begin_layer.lua: let a chain have one more layer, all segments of which were made.
-- KEYS     the chain's record, then all segments of the layer; one hash tag
-- ARGV[1]  number of the layer, counting from 0
-- ARGV[2]  length of each segment
-- ARGV     then the header of each segment
-- returns  'begun'; 'stale' if the chain has it already; 'lost' or 'foreign' if a
--          segment is not what it should be, and then nothing was written
-- cost     O(segments), two commands each; 128 for four gigabytes
local layers = redis.call('HGET', KEYS[1], 'layers')
if not layers then return 'lost' end
if layers ~= ARGV[1] then return 'stale' end
for i = 2, #KEYS do
  if redis.call('STRLEN', KEYS[i]) ~= tonumber(ARGV[2]) then return 'lost' end
  if redis.call('GETRANGE', KEYS[i], 0, #ARGV[i + 1] - 1) ~= ARGV[i + 1] then return 'foreign' end
end
redis.call('HSET', KEYS[1], 'layers', string.format('%.0f', tonumber(layers) + 1))
return 'begun'
