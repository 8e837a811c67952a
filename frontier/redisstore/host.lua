-- host.lua: what the scripts that lend a host to a worker and take it back have
-- in common: the names of its keys, and how its items move between them.
-- KEYS     1 meta, 2 due, 3 leased, 4 delayed; of the host: 5 active, 6 state,
--          7 to 9 its queues by priority
-- ARGV[2]  the host key
-- returns  nothing: it defines names for the rest of the script
-- cost     O(1); take, hand and holdings: O(items that they are about)
--
-- active is there while the host is leased; its fields are
--   i     the id of the lease
--   n     the number of the last item handed out under it; the first is 1
--   f     how many items its worker has in flight at once
--   a     how many items are aside: g<number> the entry of one given back,
--         r<number> the ms when one to be tried again is ready (0: it does not
--         count as delayed), a colon, its entry. They stay aside until the lease
--         ends, for what it completed it is not given again
--   x     items that failed under it: the last of the host's failed ones
--   s     1: nothing of the host is queued or leased, so it is not counted in hosts
--   <number>  the entry of an item that is open: handed out and not completed
-- state is there when there is something to say:
--   b     the blob                    u  not due before, ms
--   y     the delay, ms               d  its items in delayed
--   e     the id of the lease that a completion ended last, and its deadline, ms
-- meta counts queued (those aside too), delayed (part of queued), leased, done,
-- failed, hosts (those with something queued or leased), and what scripts name.
--
-- A host is in due when no worker holds it and a queue of it is not empty; in leased
-- and active when a worker holds it; d counts its members of delayed. So who queues
-- the first item of a host (add, ready, retry)
--   that no worker holds puts it in due at the later of now and u, makes state
--     persist, and counts it in hosts unless d is above 0;
--   that is leased only queues it, and if s is set removes s and counts it.

local META, DUE, LEASED, DELAYED, ACTIVE, STATE = unpack(KEYS, 1, 6)
local QUEUES = {KEYS[7], KEYS[8], KEYS[9]}
local HOST = ARGV[2]

-- add notes by how much a counter of meta changes.
local counts = {}
local function add(counter, n) counts[counter] = (counts[counter] or 0) + n end

-- totals reads the counters that change and returns them with their new values,
-- as HSET takes them.
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

-- all gives a command a list of any even or odd length, some at a time.
local function all(command, key, list)
  for i = 1, #list, 500 do
    redis.call(command, key, unpack(list, i, math.min(i + 499, #list)))
  end
end

-- deadline returns when a lease runs out, nil if it has; holder is the id that
-- active has.
local function deadline(holder, id)
  local at = tonumber(redis.call('ZSCORE', LEASED, HOST) or 0)
  if holder == id and at > now() then return at end
end

-- take reads up to most entries at the head of the queues, in their order, and
-- how many of each queue they are.
local function take(most)
  local entries, taken = {}, {0, 0, 0}
  for i, queue in ipairs(QUEUES) do
    if #entries < most then
      local some = redis.call('LRANGE', queue, 0, most - #entries - 1)
      for _, entry in ipairs(some) do entries[#entries + 1] = entry end
      taken[i] = #some
    end
  end
  add('queued', -#entries)
  add('leased', #entries)
  return entries, taken
end

-- hand moves what take read into the lease, numbered from last + 1, and sets
-- other fields of active with it.
local function hand(entries, taken, last, fields)
  for i, entry in ipairs(entries) do
    fields[#fields + 1], fields[#fields + 2] = int(last + i), entry
  end
  all('HSET', ACTIVE, fields)
  for i, n in ipairs(taken) do
    if n > 0 then redis.call('LTRIM', QUEUES[i], n, -1) end
  end
end

-- open returns how many items of a lease are open: what active has beside i, n,
-- f, a, x and s.
local function open(aside, idle)
  return redis.call('HLEN', ACTIVE) - 5 - aside - (idle and 1 or 0)
end

local function earlier(a, b) return a.number < b.number end

-- holdings reads the items of a lease, each with its number and entry: those
-- that are open, in order; given back; to be tried again, with the time when
-- they are ready. What gone has by its number is left out.
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

-- lengths reads how many items the queues have.
local function lengths()
  local sum = 0
  for _, queue in ipairs(QUEUES) do sum = sum + redis.call('LLEN', queue) end
  return sum
end

-- untilDue returns the ms until the partition's first host is due, -1 if none waits.
local function untilDue()
  local first = redis.call('ZRANGE', DUE, 0, 0, 'WITHSCORES')
  if not first[1] then return -1 end
  return math.max(first[2] - now(), 0)
end
