-- begin_layer.lua: add a layer to a chain, after all segments of the layer were created.
-- KEYS     the chain's record, then all segments of the layer; all with one hash tag
-- ARGV[1]  number of the layer, counting from 0
-- ARGV[2]  length of each segment
-- ARGV     then the header of each segment
-- returns  'begun'. Otherwise nothing was written: 'stale' if the chain has the layer
--          already; 'lost' if there is no such chain or a segment has another length;
--          'foreign' if a segment has another header
-- cost     O(segments), two commands for each; 128 segments for four gigabytes
local layers = redis.call('HGET', KEYS[1], 'layers')
if not layers then return 'lost' end
if layers ~= ARGV[1] then return 'stale' end
for i = 2, #KEYS do
  if redis.call('STRLEN', KEYS[i]) ~= tonumber(ARGV[2]) then return 'lost' end
  if redis.call('GETRANGE', KEYS[i], 0, #ARGV[i + 1] - 1) ~= ARGV[i + 1] then return 'foreign' end
end
redis.call('HSET', KEYS[1], 'layers', string.format('%.0f', tonumber(layers) + 1))
return 'begun'
