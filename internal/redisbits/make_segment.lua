-- make_segment.lua: create one segment of the next layer of a chain, at its full size.
-- KEYS[1]  the chain's record
-- KEYS[2]  the segment, with the same hash tag
-- ARGV[1]  number of the layer, counting from 0
-- ARGV[2]  the segment's header
-- ARGV[3]  index of the segment's last byte
-- returns  'made' if the segment was created. Otherwise nothing was written: 'there' if
--          the segment exists already; 'stale' if the chain has the layer already,
--          because a segment of a layer in use is never created again; 'lost' if there
--          is no such chain; 'foreign' if the key has another content
-- cost     fills one string, at most 32 MiB, with zeros
local layers = redis.call('HGET', KEYS[1], 'layers')
if not layers then return 'lost' end
if layers ~= ARGV[1] then return 'stale' end
local length = redis.call('STRLEN', KEYS[2])
if length > 0 then
  local same = length == tonumber(ARGV[3]) + 1 and redis.call('GETRANGE', KEYS[2], 0, #ARGV[2] - 1) == ARGV[2]
  return same and 'there' or 'foreign'
end
redis.call('SETRANGE', KEYS[2], ARGV[3], '\0')
redis.call('SETRANGE', KEYS[2], 0, ARGV[2])
return 'made'
