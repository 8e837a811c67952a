-- add.lua: decide on offered items of one partition, and queue the new ones:
-- entry, bits and counters change together.
-- It begins with block.lua of redisbits.
-- KEYS     1 meta, 2 due, 3 leased, 4 delayed, 5 exact, 6 shadow; then segments of
--          the filter's newest layer; then of each host: state, active, its budget
--          if it has a limit, and the queues that its items name
-- ARGV     2 how many layers the caller knows  3 what the newest is made for, '' if
--          it takes whatever comes  4 the field of meta that counts what the caller
--          adds  5 n, and the header of each of n segments; then n, and n items that
--          are special, five arguments each: which one, counting from 1; letters:
--          x exact, s in the shadow sample, z delayed; the fingerprint; how many
--          bytes of the entry go before the round; the delay, ms
--          then for each host: the host key; the index in KEYS of its state; how
--          many items it may have, '' for no limit; the field of its budget; n, and
--          n items of seven arguments each: the index in KEYS of the queue; of the
--          segment, 0 if an older layer claims the item; first and last byte of the
--          block; the block as read; the block with the item's bits set; the entry
-- returns  a string with a letter for each item: a added, s seen, h refused by the
--          host's limit, f the layer is full, t the block has lost bits: test again;
--          then how many keys the layer still takes, -1 if whatever comes. Or, and
--          then nothing was written, 'stale', 'lost' or 'foreign' and -1
-- cost     O(items); two commands for an item that is new, one for one that is seen,
--          two for a host and two for each queue; the caller keeps items <= 128
local META, DUE, LEASED, DELAYED, EXACT, SHADOW = unpack(KEYS, 1, 6)
local layers, capacity, mine = ARGV[2], ARGV[3], ARGV[4]
local at = 5

-- take returns the next n arguments.
local function take(n)
  at = at + n
  return unpack(ARGV, at - n, at - 1)
end

-- The chain is the one that the caller read, and its segments are there.
local record = redis.call('HMGET', META, 'layers', 'keys' .. layers, mine, 'found', 'queued', 'z')
if not record[1] then return {'lost', -1} end
if record[1] ~= layers then return {'stale', -1} end
local room = capacity == '' and math.huge or tonumber(capacity) - tonumber(record[2] or 0)
for i = 1, tonumber(take(1)) do
  local fault = bloom_segment(KEYS[6 + i], take(1))
  if fault then return {fault, -1} end
end

local specials = {}
for _ = 1, tonumber(take(1)) do
  local which, letters, print, cut, delay = take(5)
  specials[tonumber(which)] = {
    exact = letters:find('x', 1, true), sampled = letters:find('s', 1, true), delayed = letters:find('z', 1, true),
    print = print, cut = tonumber(cut), delay = tonumber(delay),
  }
end

-- What is to be written: for each host its entries by queue and delayed members,
-- whether it becomes due; blocks by segment and first byte; fingerprints.
local hosts, blocks, exact, shadow = {}, {}, {}, {}
local counts = {hosts = 0, delayed = 0, promoted = 0, ['sh:new'] = 0, ['sh:lost'] = 0, ['sh:forgotten'] = 0}
local added, bits, member = 0, 0, tonumber(record[6] or 0)
local answers, n = {}, 0

-- test says what the filter knows of an item: false if it claims it, nil if the
-- block has lost bits, else the block to write.
local function test(segment, from, to, old, new)
  local pending = blocks[segment] and blocks[segment][from]
  if not pending then return bloom_test(segment, from, to, old, new) end
  local union, fresh = bloom_unite(pending, new)
  return fresh and union
end

-- shade holds what the filter says of a sampled item to the exact sample.
local function shade(special, claimed, answer)
  local known = redis.call('SISMEMBER', SHADOW, special.print) == 1
  if claimed and known or not claimed and not known and answer ~= 'a' then return end
  if not known then shadow[#shadow + 1] = special.print end
  local count = claimed and 'sh:lost' or known and 'sh:forgotten' or 'sh:new'
  counts[count] = counts[count] + 1
end

-- promote gives an entry a round of its own: the filter claims to know an exact
-- item that the exact set does not. It was a bulk item before, or a false positive.
local function promote(special, entry)
  counts.promoted = counts.promoted + 1
  return string.char(entry:byte(1) + 64) .. entry:sub(2, special.cut) .. '\1' .. entry:sub(special.cut + 1)
end

-- admit notes that an item is new.
local function admit(host, special, queue, entry)
  added, host.left = added + 1, host.left - 1
  if special and special.exact then exact[#exact + 1] = special.print end
  if special and special.delayed then
    member = member + 1
    host.delayed[#host.delayed + 1] = int(soon() + special.delay)
    host.delayed[#host.delayed + 1] = struct.pack('>I8', member) .. host.name .. '\0' .. entry
    return
  end
  local entries = host.queues[queue]
  if not entries then
    entries = {}
    host.queues[queue] = entries
  end
  entries[#entries + 1] = entry
end

-- decide returns the letter that answers an item.
local function decide(host, special, queue, segment, from, to, old, new, entry)
  local block = false
  if segment ~= '0' then
    segment = KEYS[tonumber(segment)]
    block = test(segment, from, to, old, new)
    if block == nil then return 't' end
  end
  local known = not block
  if special and special.exact then known = redis.call('SISMEMBER', EXACT, special.print) == 1 end
  local answer = known and 's' or host.left <= 0 and 'h' or block and bits >= room and 'f' or 'a'
  if special and special.sampled and answer ~= 'f' then shade(special, not block, answer) end
  if answer ~= 'a' then return answer end
  if block then
    bits = bits + 1
    blocks[segment] = blocks[segment] or {}
    blocks[segment][from] = block
  else
    entry = promote(special, entry)
  end
  admit(host, special, queue, entry)
  return answer
end

-- visit says how a host that got items stands: due is when it becomes due, if it
-- does; woken that its lease no longer counts as the last of it.
local function visit(host)
  if redis.call('ZSCORE', DUE, host.name) then return end
  if redis.call('ZSCORE', LEASED, host.name) then
    host.woken = redis.call('HGET', host.active, 's')
    return
  end
  local state = redis.call('HMGET', host.state, 'u', 'd')
  host.kept = state[1] or state[2]
  host.fresh = tonumber(state[2] or 0) == 0
  if next(host.queues) then host.due = math.max(now(), tonumber(state[1] or 0)) end
end

while at <= #ARGV do
  local name, state, limit, field, items = take(5)
  state = tonumber(state)
  local host = {name = name, state = KEYS[state], active = KEYS[state + 1], queues = {}, delayed = {}}
  host.budget, host.field, host.left = KEYS[state + 2], field, math.huge
  if limit ~= '' then host.left = tonumber(limit) - tonumber(redis.call('HGET', host.budget, field) or 0) end
  local before = added
  for _ = 1, tonumber(items) do
    n = n + 1
    answers[n] = decide(host, specials[n], take(7))
  end
  if added > before then
    if limit ~= '' then host.spent = added - before end
    visit(host)
    hosts[#hosts + 1] = host
  end
end
local answer = table.concat(answers)
local left = room == math.huge and -1 or room - bits

-- Entries first: a URL is never known and not queued.
for _, host in ipairs(hosts) do
  for queue, entries in pairs(host.queues) do redis.call('RPUSH', KEYS[tonumber(queue)], unpack(entries)) end
  local waiting = #host.delayed / 2
  if waiting > 0 then
    redis.call('ZADD', DELAYED, unpack(host.delayed))
    redis.call('HINCRBY', host.state, 'd', int(waiting))
    counts.delayed = counts.delayed + waiting
  end
  if host.due then redis.call('ZADD', DUE, int(host.due), host.name) end
  if host.kept then redis.call('PERSIST', host.state) end
  if host.woken then redis.call('HDEL', host.active, 's') end
  if host.fresh or host.woken then counts.hosts = counts.hosts + 1 end
  if host.spent then redis.call('HINCRBY', host.budget, host.field, int(host.spent)) end
end
for segment, changed in pairs(blocks) do
  for from, block in pairs(changed) do bloom_set(segment, from, block) end
end
if #exact > 0 then redis.call('SADD', EXACT, unpack(exact)) end
if #shadow > 0 then redis.call('SADD', SHADOW, unpack(shadow)) end
local fields = {}
local function set(field, value) fields[#fields + 1], fields[#fields + 2] = field, int(value) end
if added > 0 then
  set(mine, (record[3] or 0) + added)
  set('found', (record[4] or 0) + added)
  set('queued', (record[5] or 0) + added)
  set('keys' .. layers, (record[2] or 0) + bits)
end
if member > tonumber(record[6] or 0) then set('z', member) end
if #fields > 0 then redis.call('HSET', META, unpack(fields)) end
for field, count in pairs(counts) do
  if count > 0 then redis.call('HINCRBY', META, field, int(count)) end
end
return {answer, left}
