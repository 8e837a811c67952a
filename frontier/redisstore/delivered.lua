-- delivered.lua: remove the first notes from the outbox of a partition, and count
-- the links in these notes that were seen or refused. If two relays deliver the same
-- notes, only the first call removes and counts them.
-- KEYS     1 meta, 2 outbox
-- ARGV     2 the number of notes
--          3 how many notes of the partition were delivered before these
--          4 the SHA-1 of the concatenated notes
--          then for each counter its name in meta and the amount to add
-- returns  1, or 0 if these are not the first notes any more
-- cost     O(bytes of the notes)
local META, OUTBOX, n = KEYS[1], KEYS[2], tonumber(ARGV[2])
if tonumber(redis.call('HGET', META, 'told') or 0) ~= tonumber(ARGV[3]) then return 0 end
local notes = redis.call('LRANGE', OUTBOX, 0, n - 1)
if #notes < n or redis.sha1hex(table.concat(notes)) ~= ARGV[4] then return 0 end

local counts = {told = n, outbox = -n}
for i = 5, #ARGV, 2 do counts[ARGV[i]] = (counts[ARGV[i]] or 0) + tonumber(ARGV[i + 1]) end
local names, fields = {}, {}
for name in pairs(counts) do names[#names + 1] = name end
for i, value in ipairs(redis.call('HMGET', META, unpack(names))) do
  fields[2 * i - 1], fields[2 * i] = names[i], int((value or 0) + counts[names[i]])
end
redis.call('HSET', META, unpack(fields))
redis.call('LTRIM', OUTBOX, n, -1)
return 1
