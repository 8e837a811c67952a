-- host.lua: the names of a host's keys, and functions that move its items between
-- these keys. Every script about one host contains this text.
-- KEYS     1 meta, 2 due, 3 leased, 4 delayed; of the host: 5 active, 6 state,
--          7 to 9 its queues by priority
-- ARGV[2]  the host key
-- returns  nothing: it defines names for the rest of the script
-- cost     O(1); take, hand and holdings: O(items that they move or read)
--
-- active exists while the host is leased. Its fields are
--   i     the id of the lease
--   n     the number of the last item handed out under the lease; the first is 1
--   f     how many items the worker has in flight at once
--   a     how many items are set aside
--   g<number>  the entry of an item that is set aside because it was given back
--   r<number>  an item that is set aside because it will be tried again: the time
--         when it is ready, ms (0: it does not count as delayed), a colon, its entry
--   x     how many items failed under the lease; they are the last ones in the host's
--         list of failed items
--   w     the number of the worker
--   s     1 if the host has no queued or leased items, and is not counted in hosts
--   <number>  the entry of an item that is open: handed out and not completed
-- Items stay aside until the lease ends, because a lease must not get an item again
-- that it has completed.
-- state has only the fields that have a value:
--   b     the blob: data that workers store about the host; scripts do not decode it
--   u     the time before which the host is not due, ms
--   y     the host's delay, ms
--   d     the number of the host's items in delayed
--   e     the id and the deadline, ms, of the last lease that a completion ended
-- meta counts queued (including items set aside), delayed (part of queued), leased,
-- check:queued and check:leased (parts of queued and leased),
-- done, failed, hosts (those with queued or leased items), and counters that other
-- scripts name.
--
-- A host with a lease is in the sorted set leased and has the key active. A host without
-- a lease that has items in its queues is in the sorted set due. Therefore a script that
-- queues the first item of a host (add, ready, retry) must do the following:
--   If the host is not leased, add it to due. Its time there is the time in field u of
--     state, or the present time if that is later. Make sure that state does not expire.
--     Count the host in hosts, unless it was counted because of delayed items (field d
--     of state).
--   If the host is leased and active has field s, remove s and count the host in hosts.

local META, DUE, LEASED, DELAYED, ACTIVE, STATE = unpack(KEYS, 1, 6)
local QUEUES = {KEYS[7], KEYS[8], KEYS[9]}
local HOST = ARGV[2]

-- add changes a counter of meta by n. It does not write the change: the script must
-- write the result of totals. If the items of the host are checks, add also changes the
-- counter of the queued or leased checks.
local counts = {}
local CHECKS = HOST:sub(1, 6) == 'check ' and {queued = 'check:queued', leased = 'check:leased'} or {}
local function add(counter, n)
  counts[counter] = (counts[counter] or 0) + n
  local part = CHECKS[counter]
  if part then counts[part] = (counts[part] or 0) + n end
end

-- totals reads the counters that change, and returns their names and new values for
-- an HSET.
local function totals()
  local names, fields = {}, {}
  for name, n in pairs(counts) do
    if n ~= 0 then names[#names + 1] = name end
  end
  if #names == 0 then return fields end
  for i, value in ipairs(redis.call('HMGET', META, unpack(names))) do
    fields[2 * i - 1], fields[2 * i] = names[i], int((value or 0) + counts[names[i]])
  end
  return fields
end

-- all runs a command on a key with the values of a list, at most 500 at a time,
-- because Lua limits the number of arguments. An empty list runs nothing.
local function all(command, key, list)
  for i = 1, #list, 500 do
    redis.call(command, key, unpack(list, i, math.min(i + 499, #list)))
  end
end

-- deadline returns the time when the lease with this id runs out, or nil if the
-- lease is not held any more. The argument holder is the id in active.
local function deadline(holder, id)
  local at = tonumber(redis.call('ZSCORE', LEASED, HOST) or 0)
  if holder == id and at > now() then return at end
end

-- take returns entries from the heads of the queues, in order, and how many of them
-- are from each queue. The argument most is their maximum number. If only is a number, they are
-- from that queue. take does not remove them.
local function take(most, only)
  local entries, taken = {}, {0, 0, 0}
  for i, queue in ipairs(QUEUES) do
    if #entries < most and (only or i) == i then
      local some = redis.call('LRANGE', queue, 0, most - #entries - 1)
      for _, entry in ipairs(some) do entries[#entries + 1] = entry end
      taken[i] = #some
    end
  end
  add('queued', -#entries)
  add('leased', #entries)
  return entries, taken
end

-- hand moves entries, which a call of take returned, into the lease. It numbers them
-- from last + 1. The argument fields is a list of names and values. hand also sets
-- these fields of active.
local function hand(entries, taken, last, fields)
  for i, entry in ipairs(entries) do
    fields[#fields + 1], fields[#fields + 2] = int(last + i), entry
  end
  all('HSET', ACTIVE, fields)
  for i, n in ipairs(taken) do
    if n > 0 then redis.call('LTRIM', QUEUES[i], n, -1) end
  end
end

-- open returns how many items of a lease are open: the number of fields of active,
-- without i, n, f, a, x, w, s and the items that are set aside. The argument aside is the
-- number of items that are set aside. The argument idle says whether s is set.
local function open(aside, idle)
  return redis.call('HLEN', ACTIVE) - 6 - aside - (idle and 1 or 0)
end

local function earlier(a, b) return a.number < b.number end

-- holdings returns three lists of items of a lease, with the number and the entry of
-- each item. The first list has the open items, in order. The second has the items that
-- were given back. The third has the items that will be tried again, with the time when
-- each is ready. Open items whose numbers are in gone are left out.
local function holdings(gone)
  local open, back, again = {}, {}, {}
  local fields = redis.call('HGETALL', ACTIVE)
  for i = 1, #fields, 2 do
    local name, value = fields[i], fields[i + 1]
    local kind, number = name:match('^([gr]?)(%d+)$')
    if number and not gone[name] then
      local item = {number = tonumber(number), entry = value}
      if kind == 'g' then
        back[#back + 1] = item
      elseif kind == 'r' then
        local ready, entry = value:match('^(%d+):(.*)$')
        item.ready, item.entry = tonumber(ready), entry
        again[#again + 1] = item
      else
        open[#open + 1] = item
      end
    end
  end
  table.sort(open, earlier)
  return open, back, again
end

-- lengths returns how many items the queues have.
local function lengths()
  local sum = 0
  for _, queue in ipairs(QUEUES) do sum = sum + redis.call('LLEN', queue) end
  return sum
end

-- untilDue returns the ms until the partition's first host is due, or -1 if due is empty.
local function untilDue()
  local first = redis.call('ZRANGE', DUE, 0, 0, 'WITHSCORES')
  if not first[1] then return -1 end
  return math.max(first[2] - now(), 0)
end
