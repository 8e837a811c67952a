-- add.lua: decide on offered items of one partition, and queue the new ones:
-- entry, bits and counters change together.
-- It begins with block.lua of redisbits.
-- KEYS     1 meta, 2 due, 3 leased; with special items 4 delayed, 5 exact, 6
--          shadow; then, named by their index, segments of the filter's newest
--          layer; of each host its state, active, and budget if it has a limit;
--          and queues
-- ARGV     2 how many layers the caller knows  3 what the newest is made for, ''
--          if it takes whatever comes  4 the field of meta that counts what the
--          caller adds  5 n, and n special items, five arguments each: which one,
--          counting from 1; letters: x exact, or what an exact set decided: n it is
--          new, p likewise but perhaps not to the filter, r in another round; with
--          these q, to be refused unless it waits; s in the shadow sample; z delayed;
--          the fingerprint; how many bytes of its entry go before the round; the
--          delay, ms
--          then for each host: the host key; the index of its state; the most
--          items that it may have, '' for no limit, else also the field of its
--          budget; n, and n runs of items: the index of their queue; n, and n items:
--          the index of the segment; the first and last byte of what the item
--          changes there, '' if a layer claims it; these bytes as read, and with
--          its bits set, the same if it has them already; the entry. No two items
--          change the same byte
-- returns  a string with a letter for each item: a added, s seen, h refused by the
--          host's limit, q because of q, f the layer is full, t bits were lost: test again; then
--          how many keys the layer still takes, -1 if whatever comes; then how many
--          hosts wait that did not. Or, and then nothing was written, 'stale' or 'lost'
-- cost     O(items); two commands for an item that is new, one for one that is seen,
--          two for a host and one for each run; the caller keeps items <= 128
local META, DUE, LEASED = KEYS[1], KEYS[2], KEYS[3]
local layers, capacity, mine = ARGV[2], ARGV[3], ARGV[4]
local record = redis.call('HMGET', META, 'layers', 'keys' .. layers, mine, 'queued')
if not record[1] then return {'lost', -1, 0} end
if record[1] ~= layers then return {'stale', -1, 0} end
local room = capacity == '' and math.huge or tonumber(capacity) - tonumber(record[2] or 0)

-- What counts an exact item that the filter claims to know.
local claims = {x = 'promoted', p = 'promoted', n = 'recovered', r = 'renewed'}

local specials, at = {}, 6
for _ = 1, tonumber(ARGV[5]) do
  local letters = ARGV[at + 1]
  specials[tonumber(ARGV[at])] = {
    exact = letters:match('[xnpr]'), full = letters:find('q', 1, true),
    sampled = letters:find('s', 1, true), delayed = letters:find('z', 1, true),
    print = ARGV[at + 2], cut = tonumber(ARGV[at + 3]), delay = tonumber(ARGV[at + 4]),
  }
  at = at + 5
end

-- What is to be written, beside what hosts hold.
local hosts, names, sets, exact, shadow, counts = {}, {}, {}, {}, {}, {}
local answers, n, added, bits, woken, member = {}, 0, 0, 0, 0, nil

local function count(counter, by) counts[counter] = (counts[counter] or 0) + by end

-- changed is bloom_test for bytes that are not what the caller read.
local function changed(now, old, new)
  if #now ~= #old then return nil end
  local rest = string.rep('\0', -#now % 32) -- bloom_unite takes 32 bytes at a time
  local _, gone = bloom_unite(now .. rest, old .. rest)
  if gone then return nil end
  local union, fresh = bloom_unite(now .. rest, new .. rest)
  return fresh and union:sub(1, #now)
end

-- shade holds what the filter says of a sampled item to the exact sample.
local function shade(special, claimed, answer)
  local known = redis.call('SISMEMBER', KEYS[6], special.print) == 1
  if claimed and known or not claimed and not known and answer ~= 'a' then return end
  if not known then shadow[#shadow + 1] = special.print end
  count(claimed and 'sh:lost' or known and 'sh:forgotten' or 'sh:new', 1)
end

-- admit notes a special item that is new, and returns its entry if it is ready.
-- An exact item that is promoted was a bulk item before, or is a false positive:
-- it gets a round of its own, unless it has one.
local function admit(host, special, claimed, entry)
  local claim = claimed and claims[special.exact]
  if claim then count(claim, 1) end
  if claim == 'promoted' and entry:byte(1) % 128 < 64 then
    entry = string.char(entry:byte(1) + 64) .. entry:sub(2, special.cut) .. '\1' .. entry:sub(special.cut + 1)
  end
  if special.exact then exact[#exact + 1] = special.print end
  if not special.delayed then return entry end
  member = (member or tonumber(redis.call('HGET', META, 'z') or 0)) + 1
  host.delayed = host.delayed or {}
  host.delayed[#host.delayed + 1] = int(soon() + special.delay)
  host.delayed[#host.delayed + 1] = struct.pack('>I8', member) .. host.name .. '\0' .. entry
end

-- visit says how a host that got items stands, unless it is due: due is when it
-- becomes so, if it does; kept that its state must not expire; fresh that it had
-- nothing queued or leased; woken that its lease is not the last of it any more.
local function visit(host)
  if redis.call('ZSCORE', LEASED, host.name) then
    host.woken = redis.call('HGET', host.active, 's')
    return
  end
  local state = redis.call('HMGET', host.state, 'u', 'd')
  host.kept, host.fresh = state[1] or state[2], tonumber(state[2] or 0) == 0
  if host[1] then host.due = math.max(now(), tonumber(state[1] or 0)) end
end

while ARGV[at] do
  local state, limit, left, before = tonumber(ARGV[at + 1]), ARGV[at + 2], math.huge, added
  local host = {name = ARGV[at], state = KEYS[state], active = KEYS[state + 1]} -- and its runs
  at = at + 3
  if limit ~= '' then
    host.budget, host.field = KEYS[state + 2], ARGV[at]
    left = tonumber(limit) - tonumber(redis.call('HGET', host.budget, host.field) or 0)
    at = at + 1
  end
  local runs = tonumber(ARGV[at])
  at = at + 1
  for _ = 1, runs do
    local entries, last = {KEYS[tonumber(ARGV[at])]}, at + 1 + 6 * tonumber(ARGV[at + 1])
    for i = at + 2, last, 6 do
      local segment, from, block, entry = KEYS[tonumber(ARGV[i])], ARGV[i + 1], false, ARGV[i + 5]
      if from ~= '' then
        local now, old = redis.call('GETRANGE', segment, from, ARGV[i + 2]), ARGV[i + 3]
        block = ARGV[i + 4]
        if now ~= old then block = changed(now, old, block) elseif block == old then block = false end
      end
      n = n + 1
      local special, known = specials[n], not block
      if special and special.exact then known = redis.call('SISMEMBER', KEYS[5], special.print) == 1 end
      local answer = block == nil and 't' or known and 's' or special and special.full and 'q'
        or left <= 0 and 'h' or block and bits >= room and 'f' or 'a'
      if special and special.sampled and answer ~= 'f' and answer ~= 't' then shade(special, not block, answer) end
      if answer == 'a' then
        added, left = added + 1, left - 1
        if block then
          bits = bits + 1
          local k = #sets
          sets[k + 1], sets[k + 2], sets[k + 3] = segment, from, block
        end
        if special then entry = admit(host, special, not block, entry) end
        entries[#entries + 1] = entry
      end
      answers[n] = answer
    end
    if entries[2] then host[#host + 1] = entries end
    at = last + 1
  end
  if added > before then
    if limit ~= '' then host.spent = added - before end
    hosts[#hosts + 1], names[#names + 1] = host, host.name
  end
end
if added > 0 then
  local due = redis.call('ZMSCORE', DUE, unpack(names))
  for i, host in ipairs(hosts) do
    if not due[i] then visit(host) end
  end
end

-- Entries first: a URL is never known and not queued.
for _, host in ipairs(hosts) do
  for _, entries in ipairs(host) do redis.call('RPUSH', unpack(entries)) end
  if host.delayed then
    local waiting = #host.delayed / 2
    redis.call('ZADD', KEYS[4], unpack(host.delayed))
    redis.call('HINCRBY', host.state, 'd', int(waiting))
    count('delayed', waiting)
  end
  if host.due then
    redis.call('ZADD', DUE, int(host.due), host.name)
    woken = woken + 1
  end
  if host.kept then redis.call('PERSIST', host.state) end
  if host.woken then redis.call('HDEL', host.active, 's') end
  if host.fresh or host.woken then count('hosts', 1) end
  if host.spent then redis.call('HINCRBY', host.budget, host.field, int(host.spent)) end
end
for i = 1, #sets, 3 do bloom_set(sets[i], sets[i + 1], sets[i + 2]) end
if exact[1] then redis.call('SADD', KEYS[5], unpack(exact)) end
if shadow[1] then redis.call('SADD', KEYS[6], unpack(shadow)) end
if member then redis.call('HSET', META, 'z', int(member)) end
if added > 0 then
  redis.call('HSET', META, mine, int((record[3] or 0) + added), 'queued', int((record[4] or 0) + added),
    'keys' .. layers, int((record[2] or 0) + bits))
end
for counter, by in pairs(counts) do redis.call('HINCRBY', META, counter, int(by)) end
return {table.concat(answers), room == math.huge and -1 or room - bits, woken}
