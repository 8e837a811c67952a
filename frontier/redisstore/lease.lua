-- lease.lua: lease a host that is due, with its first items. If the host is already
-- leased under the same id, the call is a repeat: it returns the open items of the lease.
-- KEYS     as in host.lua; 10 the places of the host's site (place.lua), 11 its queue
-- ARGV     2 the host key
--          3 the lease's id
--          4 how long the lease lasts, ms
--          5 the delay of the policy, ms: the host's delay if its state has none, or a shorter one
--          6 how many items the worker has in flight at once
--          7 the maximum number of items
--          8 the number of the worker
--          9 the queue (1 to 3) of the items, to lease the host although it is not due: the
--            caller makes no requests. Otherwise ''
--          10 how many requests per second the hosts of the site get together; 0 means
--            that there is no limit
-- returns  1 if the lease is held, 0 if not
--          then the ms until the partition's next host is due; -1 if due is empty; 0 if
--            the epoch is new to the partition, or the partition was lost
--          then, if another host of the site must be leased first, this host
--          then, if the lease is held, the ms until it runs out, the blob or nil, and
--            the number and the entry of each open item
-- cost     O(items), at most 32; a repeat: O(items of the lease). With a limit also O(places
--            of the site) and O(log(hosts in its queue))
--
-- The script leases nothing in an epoch that is new to the partition, and nothing
-- before the end of a hold (hold.lua). After a hold each host waits for its delay. A host
-- whose state has a shorter delay than the policy is due as much later. With ARGV[9] the due time of the host
-- is written to its state, and the end of the lease does not change it. Of parked hosts see park.go.
--
-- The queue of a site is a sorted set: the hosts that found no place, by the time when they
-- joined, ms. They are due later, the later the more hosts are before them. A host that finds
-- a free place while others are before it makes the first of them due.
local id, ttl = ARGV[3], tonumber(ARGV[4])
local PLACES, QUEUE = KEYS[10], KEYS[11]

-- enter reports whether the site has a place for the host. If not, it sets when the host is
-- tried again. If the place is for another host, enter also returns that host.
local function enter(delay)
  local rate = tonumber(ARGV[10])
  if rate == 0 or delay == 0 then return true end
  local share, load, gone = 1000 / delay, 0, {} -- requests per second
  local places = redis.call('HGETALL', PLACES)
  for i = 1, #places, 2 do
    local ends, each = places[i + 1]:match('^(%d+) (%d+)$')
    if tonumber(ends) <= now() or places[i] == HOST then gone[#gone + 1] = places[i] else load = load + 1000 / each end
  end
  local first, stale, most = HOST, {}, 16
  local free = load == 0 or load + share <= rate * (1 + 1e-9)
  if free then
    for _, other in ipairs(redis.call('ZRANGE', QUEUE, 0, most - 1)) do
      first = other
      local at = other ~= HOST and tonumber(redis.call('ZSCORE', DUE, other) or PARKED)
      if not at or at < PARKED then break end
      stale[#stale + 1], first = other, HOST -- it does not wait any more
    end
  end
  redis.call('ZCARD', QUEUE)
  all('HDEL', PLACES, gone)
  all('ZREM', QUEUE, stale)
  if free and first == HOST and #stale < most then
    hold(PLACES, soon() + ttl + delay, delay)
    return true
  end
  if first ~= HOST and tonumber(redis.call('ZSCORE', DUE, first)) > now() then redis.call('ZADD', DUE, int(now()), first) end
  redis.call('ZADD', QUEUE, 'NX', int(now()), HOST)
  local longest = 300000
  redis.call('PEXPIRE', QUEUE, 2 * longest)
  local wait = (redis.call('ZRANK', QUEUE, HOST) + 1) * 500 / math.max(rate, share)
  if wait > longest then wait = longest / 2 + wait % (longest / 2) end -- not all at the same time
  redis.call('ZADD', DUE, int(soon() + wait), HOST)
  return false, first ~= HOST and first or nil
end

-- granted writes the rest of a lease, and returns the reply.
local function granted(entries, sums, blob)
  redis.call('ZADD', LEASED, int(soon() + ttl), HOST)
  redis.call('ZREM', DUE, HOST)
  redis.call('ZREM', QUEUE, HOST)
  all('HSET', META, sums)
  local reply = {1, untilDue(), ttl, blob}
  for i, entry in ipairs(entries) do
    reply[2 * i + 3], reply[2 * i + 4] = i, entry
  end
  return reply
end

local holder = redis.call('HGET', ACTIVE, 'i')
local runsOut = deadline(holder, id)
if runsOut then
  local reply = {1, untilDue(), runsOut - now(), redis.call('HGET', STATE, 'b')}
  local open = holdings({})
  for i, item in ipairs(open) do
    reply[2 * i + 3], reply[2 * i + 4] = item.number, item.entry
  end
  return reply
end

local known = redis.call('HMGET', META, 'epoch', 'hold')
if known[1] ~= EPOCH then return {0, 0} end
local state = redis.call('HMGET', STATE, 'b', 'y')
local due = tonumber(redis.call('ZSCORE', DUE, HOST))
if not due or holder then return {0, untilDue()} end
local only = tonumber(ARGV[9])
if only and tonumber(known[2] or 0) <= now() then
  local entries, taken = take(tonumber(ARGV[7]), only)
  if #entries == 0 then return {0, untilDue()} end
  local sums = totals()
  if due >= PARKED then due = due - PARKED end
  hand(entries, taken, 0, {'i', id, 'n', #entries, 'f', 0, 'a', 0, 'x', 0, 'w', ARGV[8]})
  redis.call('HSET', STATE, 'u', int(due))
  return granted(entries, sums, state[1])
end
local delay, least = tonumber(state[2] or ARGV[5]), tonumber(ARGV[5])
if delay < least then -- the policy is newer than the due time
  due, delay = due + least - delay, least
  redis.call('HSET', STATE, 'y', int(least))
  redis.call('ZADD', DUE, int(due), HOST)
  redis.call('ZREM', QUEUE, HOST) -- a host in the queue is due, apart from its site
end
local held = tonumber(known[2] or 0) + delay
if held > math.max(due, now()) then
  redis.call('ZADD', DUE, int(held), HOST)
  return {0, untilDue()}
end
if due > now() then return {0, untilDue()} end

local batch = 32
if delay > 0 then batch = math.max(math.min(batch, math.floor(ttl / delay)), 1) end
local entries, taken = take(math.min(batch, tonumber(ARGV[7])))
if #entries == 0 then return {0, untilDue()} end
local sums = totals()
local placed, other = enter(delay)
if not placed then return {0, untilDue(), other} end

hand(entries, taken, 0, {'i', id, 'n', #entries, 'f', ARGV[6], 'a', 0, 'x', 0, 'w', ARGV[8]})
return granted(entries, sums, state[1])
