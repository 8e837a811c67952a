-- add.lua: decide on offered items of one partition, and queue the new ones. The
-- entry of an item, its bits and the counters change together.
-- The text of block.lua (package redisbits) is in the script before this text.
-- KEYS     1 meta
--          2 due
--          3 leased
--          4 delayed, 5 exact, 6 shadow, 7 readmitted, 8 the hosts that have failed items:
--            only if there are special items. An item is special if it has at least one
--            of the letters below
--          9 verdicts of a chunk: only if the items are lines of it, with the letter i
--          then, in any order, keys that ARGV names by their index in KEYS:
--            segments of the filter's newest layer
--            the queues that get items
--            two or three keys in a row for each host: its keys state and active (see
--              host.lua) and, if its number of items is limited, the hash that counts
--              the items ever added to it
--            the lists of failed items of hosts that have items with the letter m
-- ARGV     2 the number of layers that the caller knows
--          3 the capacity of the newest layer, '' if it has no limit
--          4 the field of meta that counts the items that the caller adds
--          5 how long the verdicts on lines are kept at least, ms; '' if the items are no lines
--          6 "1" if the caller has looked up which items are readmitted
--          7 the number of special items
--          then five arguments for each special item, two more with the letter i, and one
--            more with the letter m:
--            its number among the items of the call, from 1
--            its letters, see below
--            its fingerprint
--            the offset of the round in its entry (see entry.go)
--            its delay, ms
--            the number of the line, and how many other lines have the same URL. They
--              are counted with the line, as seen or refused
--            the index of its host's list of failed items
--          then for each host:
--            the host key
--            the index of the key state
--            the maximum number of items of the host, '' if it has no limit
--            the host's field in the hash that counts its items; this argument is
--              missing if there is no limit
--            the number of runs. The items of a run go to the same queue
--            then for each run:
--              the index of the queue
--              the number of items in the run
--              then six arguments for each item:
--                the index of the segment that has the bits of the item
--                the offset of the first byte that the item changes in the segment,
--                  '' if a layer claims to contain the item
--                the offset of the last byte that the item changes
--                these bytes as the caller read them
--                these bytes with the item's bits set
--                the entry
--          No two items of a call change the same byte.
--          The letters of a special item say:
--            x  it is exact, and there is no decision of an exact set
--            n  it is exact, and an exact set decided: it is new
--            p  it is exact, and an exact set decided: it is promoted
--            r  it is exact, and an exact set decided: it is queued again
--            l  with p or r: if the filter claims to contain it, it is queued in a later round
--               than any item of the partition. x and p always mean that, too
--            s  it is in the shadow sample, with which the errors of the filter are
--               measured
--            z  it is delayed
--            o  the host's limit does not apply to it
--            i  it is a line: its verdict is stored and counted here, and if it has one,
--               nothing happens
--            c  with i: the limit of its host is certain, so a refusal is stored
--            k  it is exact, and an exact set knows it. The letter k only occurs together
--               with i or m
--            m  it was readmitted when the caller looked. If it still is, it is queued in the
--               round that the readmission allows, unless it waits already
--            e  with m: it is bulk, and there is an exact set. While it waits, it is in exact
--            q  it is refused, unless it is already queued or leased. The letter q only
--               occurs together with n, p or r
-- returns  1 a letter for each item:
--              a  added
--              s  seen
--              h  refused because of the host's limit
--              q  refused because of its letter q
--              A, S, H, Q  the verdict that the line has from an earlier call
--              u  not decided: a line that the limit of its host refuses, but without
--                 its letter c
--              f  not added, because the layer is full
--              t  not decided, because bits were lost; the caller must test it again
--            Instead of letters, 1 is the word 'stale' if the number of layers has
--            changed, 'lost' if the record of the filter is lost, or 'readmitted' if items
--            of the partition are readmitted and the caller did not look them up. Then
--            nothing was decided or written
--          2 how many hosts became due
--          3 how many items the caller had added before
-- cost     O(items): two commands for a new item, one for a seen item, two for a host
--          and one for each run; the caller keeps items <= 128
local META, DUE, LEASED = KEYS[1], KEYS[2], KEYS[3]
local layers, capacity, mine, kept = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local record = redis.call('HMGET', META, 'layers', 'keys' .. layers, mine, 'queued', 'top', 'readmitted')
if not record[1] then return {'lost', 0, 0} end
if record[1] ~= layers then return {'stale', 0, 0} end
local exceptions = tonumber(record[6] or 0) > 0
if exceptions and ARGV[6] ~= '1' then return {'readmitted', 0, 0} end
if exceptions and ARGV[7] ~= '0' then redis.call('HLEN', KEYS[7]) end
local room = capacity == '' and math.huge or tonumber(capacity) - tonumber(record[2] or 0)

-- The counters for exact items that the filter claims to contain, by letter.
local claims = {x = 'promoted', p = 'promoted', n = 'recovered', r = 'renewed'}

local specials, at = {}, 8
for _ = 1, tonumber(ARGV[7]) do
  local letters = ARGV[at + 1]
  local special = {
    exact = letters:match('[xnpr]'), later = letters:find('[xpl]'), full = letters:find('q', 1, true),
    sampled = letters:find('s', 1, true), delayed = letters:find('z', 1, true),
    owed = letters:find('o', 1, true),
    print = ARGV[at + 2], cut = tonumber(ARGV[at + 3]), delay = tonumber(ARGV[at + 4]),
    known = letters:find('k', 1, true), certain = letters:find('c', 1, true),
  }
  specials[tonumber(ARGV[at])] = special
  at = at + 5
  if letters:find('i', 1, true) then
    special.line, special.copies = ARGV[at], tonumber(ARGV[at + 1])
    special.verdict = redis.call('HGET', KEYS[9], special.line)
    at = at + 2
  end
  if letters:find('m', 1, true) then
    special.let, special.failures = redis.call('HGET', KEYS[7], special.print), KEYS[tonumber(ARGV[at])]
    at = at + 1
  end
  special.row = special.exact or special.known
  special.kept = letters:find('e', 1, true)
  special.waits = letters:find('[knpre]')
end

-- The writes to make. hosts has the hosts that get items, with the writes to their keys,
-- and names has the names of these hosts. The other tables have the writes to other keys.
local hosts, names, sets, exact, shadow, counts = {}, {}, {}, {}, {}, {}
local verdicts = {} -- lines and letters
local ended = {} -- readmissions
local answers, n, added, bits, woken, member = {}, 0, 0, 0, 0, nil
local top = tonumber(record[5] or 0) -- the latest round that an item of the partition has had

local function count(counter, by) counts[counter] = (counts[counter] or 0) + by end

-- shade compares the filter's claim about a sampled item with the shadow sample.
local function shade(special, claimed, answer)
  local known = redis.call('SISMEMBER', KEYS[6], special.print) == 1
  if claimed and known or not claimed and not known and answer ~= 'a' then return end
  if not known then shadow[#shadow + 1] = special.print end
  count(claimed and 'sh:lost' or known and 'sh:forgotten' or 'sh:new', 1)
end

-- uvarint encodes a round as in an entry.
local function uvarint(n)
  local low = ''
  while n >= 128 do
    low, n = low .. string.char(128 + n % 128), math.floor(n / 128)
  end
  return low .. string.char(n)
end

-- roundOf returns the round in an entry, and the number of its bytes behind the offset cut.
local function roundOf(entry, cut)
  if entry:byte(1) % 128 < 64 then return 0, 0 end
  local n, unit, size = 0, 1, 0
  repeat
    size = size + 1
    local byte = entry:byte(cut + size)
    n, unit = n + byte % 128 * unit, unit * 128
  until byte < 128
  return n, size
end

-- settleRound returns the entry of an exact item with the round in which it is queued, and adjusts top. If the filter
-- claims to contain the item and the URL may have been a bulk item before, another item of the URL can have had any round
-- up to top.
local function settleRound(special, claimed, entry)
  local round, size = roundOf(entry, special.cut)
  if special.let or claimed and special.later then
    round = math.max(round, special.let and tonumber(special.let:match('^%d+')) or top + 1)
    local flags = entry:byte(1)
    if size == 0 then flags = flags + 64 end
    entry = string.char(flags) .. entry:sub(2, special.cut) .. uvarint(round) .. entry:sub(special.cut + size + 1)
    if not special.let then count('later', 1) end
  end
  top = math.max(top, round)
  return entry
end

-- letIn reports whether a readmitted item that would be queued comes back. It does not if it has come back in another way:
-- as an item that is queued again, because it had failed. Otherwise the failed item of its earlier round will leave the list,
-- so that it is not queued again.
local function letIn(host, special)
  local failed = special.let:match('^%d+ (.*)$')
  if failed == '' then return true end
  local length = redis.call('LLEN', special.failures)
  for last = length - 1, 0, -500 do
    local first = math.max(last - 499, 0)
    for i, value in ipairs(redis.call('LRANGE', special.failures, first, last)) do
      if value == failed then
        -- The last items of the list failed under the present lease.
        host.under = host.under or tonumber(redis.call('HGET', host.active, 'x') or 0)
        host.own = (host.own or 0) + (length - (first + i - 1) <= host.under and 1 or 0)
        host.failures, host.back = special.failures, host.back or {}
        host.back[#host.back + 1] = failed
        redis.call('SCARD', KEYS[8])
        redis.call('HLEN', host.state)
        return true
      end
    end
  end
  return false
end

-- note stores and counts the verdict on a line, and counts its copies. It returns 'u' if the verdict is uncertain.
local function note(line, answer)
  if answer == 'f' or answer == 't' then return answer end
  if answer == 'h' and not line.certain then return 'u' end
  verdicts[#verdicts + 1], verdicts[#verdicts + 2] = line.line, answer
  local others = line.copies + (answer == 'a' and 0 or 1)
  if others > 0 then
    count('other', others)
    count(answer == 'h' and 'r:max_per_host' or answer == 'q' and 'r:queue_full' or 'seen', others)
  end
  return answer
end

-- admit prepares the writes for a special item that is new. It returns the item's
-- entry, or nil if the item is delayed.
local function admit(host, special, claimed, entry)
  local claim = claimed and (special.let and 'renewed' or claims[special.exact])
  if claim then count(claim, 1) end
  if special.row or special.let then entry = settleRound(special, claimed, entry) end
  if special.row or special.let and special.kept then exact[#exact + 1] = special.print end
  if not special.delayed then return entry end
  member = (member or tonumber(redis.call('HGET', META, 'z') or 0)) + 1
  host.delayed = host.delayed or {}
  host.delayed[#host.delayed + 1] = int(soon() + special.delay)
  host.delayed[#host.delayed + 1] = struct.pack('>I8', member) .. host.name .. '\0' .. entry
end

-- visit sets some of these fields of a host that got items and is not in due yet:
--   due    the time at which the host becomes due; nil if all its new items are delayed
--   kept   set if the host's key state has the field u or d; state must not expire
--   fresh  true if the host had no queued or leased items
--   woken  set if the host is leased and its key active has the field s, which must
--          be removed
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
  local host = {name = ARGV[at], state = KEYS[state], active = KEYS[state + 1]} -- its runs are host[1], host[2] and so on
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
      if from ~= '' then block = bloom_test(segment, from, ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]) end
      n = n + 1
      local special, known = specials[n], not block
      if special and (special.row or special.let) then
        local member = (special.row or special.kept) and redis.call('SISMEMBER', KEYS[5], special.print) == 1
        if special.let then known = member and special.waits
        elseif special.known then known = true
        elseif special.exact then known = member end
      end
      local answer = block == nil and 't' or known and 's' or special and special.full and 'q'
        or left <= 0 and not (special and special.owed) and 'h' or block and bits >= room and 'f' or 'a'
      if special and exceptions and answer == 'a' and not special.verdict then
        ended[#ended + 1] = special.print
        if special.let and not letIn(host, special) then answer = 's' end
      end
      if special and special.line then
        answer = special.verdict and special.verdict:upper() or note(special, answer)
      end
      if special and special.sampled and not special.known and answer:find('[ashq]') then shade(special, not block, answer) end
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
    if host.name:sub(1, 6) == 'check ' then
      count('check:added', added - before)
      count('check:queued', added - before)
    end
    hosts[#hosts + 1], names[#names + 1] = host, host.name
  end
end
if added > 0 then
  local due = redis.call('ZMSCORE', DUE, unpack(names))
  for i, host in ipairs(hosts) do
    if not due[i] then visit(host) end
  end
end

-- Entries are written before bits, so that the filter never has a URL that was not
-- queued.
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
  for _, value in ipairs(host.back or {}) do redis.call('LREM', host.failures, -1, value) end
  if host.back then
    if redis.call('LLEN', host.failures) == 0 then redis.call('SREM', KEYS[8], host.name) end
    if host.own > 0 then redis.call('HSET', host.active, 'x', int(host.under - host.own)) end
    redis.call('HDEL', host.state, 'b')
    count('replaced', #host.back)
  end
  if host.kept then redis.call('PERSIST', host.state) end
  if host.woken then redis.call('HDEL', host.active, 's') end
  if host.fresh or host.woken then count('hosts', 1) end
  if host.spent then redis.call('HINCRBY', host.budget, host.field, int(host.spent)) end
end
for i = 1, #sets, 3 do bloom_set(sets[i], sets[i + 1], sets[i + 2]) end
if verdicts[1] then
  redis.call('HSET', KEYS[9], unpack(verdicts))
  if redis.call('PTTL', KEYS[9]) < tonumber(kept) then redis.call('PEXPIRE', KEYS[9], kept) end
end
if ended[1] then count('readmitted', -redis.call('HDEL', KEYS[7], unpack(ended))) end
if exact[1] then redis.call('SADD', KEYS[5], unpack(exact)) end
if shadow[1] then redis.call('SADD', KEYS[6], unpack(shadow)) end
if member then redis.call('HSET', META, 'z', int(member)) end
if added > 0 then
  redis.call('HSET', META, mine, int((record[3] or 0) + added), 'queued', int((record[4] or 0) + added),
    'keys' .. layers, int((record[2] or 0) + bits))
end
if top > tonumber(record[5] or 0) then redis.call('HSET', META, 'top', int(top)) end
for counter, by in pairs(counts) do redis.call('HINCRBY', META, counter, int(by)) end
return {table.concat(answers), woken, tonumber(record[3] or 0)}
