-- block.lua: what an add script does with a chain: local functions, for scripts that begin with this text.
-- KEYS     none of its own: functions take keys that the script declares, all of one hash tag
-- returns  nothing: the script that follows does
-- cost     said at each function, in commands; the scripts bound the number of calls
--
-- Bits are changed by comparison. The caller has read a fingerprint's block (the
-- seen-test) and sends it as it was and as it should be. Unchanged, which is the
-- rule, it is replaced: one comparison of strings, no arithmetic. Changed, the two
-- are united. Offsets are decimal strings: Lua numbers are slow to pass on.
--
-- An add script calls bloom_begin and bloom_segment before it writes anything;
-- after that nothing here fails.

-- bloom_begin(chain, layers, capacity) says how many keys the newest layer of a
-- chain takes yet. layers and capacity are what the caller knows: how many layers
-- there are, and what the newest is made for, '' if it takes whatever comes.
-- Returns the number, or nil and 'stale' (the chain has other layers by now: test
-- again) or 'lost'. One command.
local function bloom_begin(chain, layers, capacity)
  local record = redis.call('HMGET', chain, 'layers', 'keys' .. layers)
  if not record[1] then return nil, 'lost' end
  if record[1] ~= layers then return nil, 'stale' end
  if capacity == '' then return math.huge end
  return tonumber(capacity) - tonumber(record[2] or 0)
end

-- bloom_segment(segment, header) returns nil if a segment begins with its header,
-- 'lost' if it is not there, 'foreign' if it is another filter's. One command.
local function bloom_segment(segment, header)
  local stored = redis.call('GETRANGE', segment, '0', '63')
  if stored == header then return nil end
  return #stored < 64 and 'lost' or 'foreign'
end

-- bloom_unite returns the union of two blocks, and whether it has bits that the
-- first lacks.
local function bloom_unite(a, b)
  local words, parts = 'I4I4I4I4I4I4I4I4', {}
  for at = 1, #a, 32 do
    local x, y = {struct.unpack(words, a, at)}, {struct.unpack(words, b, at)}
    for i = 1, 8 do x[i] = bit.bor(x[i], y[i]) end
    parts[#parts + 1] = struct.pack(words, unpack(x, 1, 8))
  end
  local union = table.concat(parts)
  return union, union ~= a
end

-- bloom_test(segment, from, to, old, new) tests the block in bytes from..to of a
-- segment, which the caller read as old and wants as new. Returns what bloom_set
-- has to write; false if the bits are set already; or nil if the block has lost
-- bits since it was read (the server went back in time): test again. One command.
local function bloom_test(segment, from, to, old, new)
  local now = redis.call('GETRANGE', segment, from, to)
  if now == old then return old ~= new and new end
  if #now ~= #old then return nil end
  local _, gone = bloom_unite(now, old)
  if gone then return nil end
  local union, fresh = bloom_unite(now, new)
  return fresh and union
end

-- bloom_set(segment, from, block) writes what bloom_test returned. One command.
local function bloom_set(segment, from, block)
  redis.call('SETRANGE', segment, from, block)
end

-- bloom_end(chain, layers, added) counts keys that were added, if any. One command.
local function bloom_end(chain, layers, added)
  if added > 0 then redis.call('HINCRBY', chain, 'keys' .. layers, string.format('%.0f', added)) end
end
