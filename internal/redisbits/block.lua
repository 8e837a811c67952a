-- block.lua: local functions that test and change a chain. An add script contains this
-- text before its own.
-- KEYS     none of its own: functions take keys that the script declares, all with one hash tag
-- returns  nothing: the script after this text returns its result
-- cost     given at each function, in commands; the scripts limit the number of calls
--
-- The caller has read the block of a fingerprint. It sends two versions of the block:
-- the old block, as it was read, and the new block, which also has the bits of the
-- fingerprint. Usually the stored block still equals the old one. Then the script stores
-- the new block, which takes one comparison of strings and no arithmetic. If the stored
-- block has changed, the script stores the union of the stored block and the new one.
-- Offsets are decimal strings, because passing Lua numbers to Redis is slow.
--
-- An add script calls bloom_begin and bloom_segment before it writes anything. After
-- these calls no function in this text fails.

-- bloom_begin(chain, layers, capacity) returns the number of keys for which the newest
-- layer of a chain still has room. The argument layers is the number of layers that the
-- caller knows. The argument capacity is the number of keys that the newest layer is
-- sized for, '' for no limit. If the chain has another number of layers by now,
-- bloom_begin returns nil and 'stale', and the caller must test again. If the record is
-- lost, bloom_begin returns nil and 'lost'. One command.
local function bloom_begin(chain, layers, capacity)
  local record = redis.call('HMGET', chain, 'layers', 'keys' .. layers)
  if not record[1] then return nil, 'lost' end
  if record[1] ~= layers then return nil, 'stale' end
  if capacity == '' then return math.huge end
  return tonumber(capacity) - tonumber(record[2] or 0)
end

-- bloom_segment(segment, header) returns nil if a segment begins with its header,
-- 'lost' if it does not exist, and 'foreign' if it has another header. One command.
local function bloom_segment(segment, header)
  local stored = redis.call('GETRANGE', segment, '0', '63')
  if stored == header then return nil end
  return #stored < 64 and 'lost' or 'foreign'
end

-- bloom_unite(a, b) returns the union of two strings of bits that have equal lengths, and
-- whether b has bits that a lacks.
local function bloom_unite(a, b)
  local length, rest = #a, string.rep('\0', -#a % 32)
  a, b = a .. rest, b .. rest
  local words, parts = 'I4I4I4I4I4I4I4I4', {}
  for at = 1, #a, 32 do
    local x, y = {struct.unpack(words, a, at)}, {struct.unpack(words, b, at)}
    for i = 1, 8 do x[i] = bit.bor(x[i], y[i]) end
    parts[#parts + 1] = struct.pack(words, unpack(x, 1, 8))
  end
  local union = table.concat(parts)
  return union:sub(1, length), union ~= a
end

-- bloom_test(segment, from, to, old, new) tests the block in bytes from..to of a
-- segment, or the part of a block that changes. The argument old is the block as the
-- caller has read it, and new is the block that the caller wants to store. bloom_test
-- returns the block that bloom_set must write, or false if the bits are set already. It
-- returns nil if the block has lost bits since it was read, because the server lost its
-- latest changes; the caller must then test again. One command.
local function bloom_test(segment, from, to, old, new)
  local now = redis.call('GETRANGE', segment, from, to)
  if now == old then return old ~= new and new end
  if #now ~= #old then return nil end
  local _, gone = bloom_unite(now, old)
  if gone then return nil end
  local union, fresh = bloom_unite(now, new)
  return fresh and union
end

-- bloom_set(segment, from, block) writes the block that bloom_test returned. One command.
local function bloom_set(segment, from, block)
  redis.call('SETRANGE', segment, from, block)
end

-- bloom_end(chain, layers, added) adds the number of added keys to the chain's record.
-- One command, or none for 0 keys.
local function bloom_end(chain, layers, added)
  if added > 0 then redis.call('HINCRBY', chain, 'keys' .. layers, string.format('%.0f', added)) end
end
