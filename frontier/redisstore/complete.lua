-- complete.lua: make completions of a lease take effect, with what its worker
-- learnt of the host; what the lease completed before is passed over.
-- KEYS     as in host.lua; 10 the host's failed items, 11 the hosts that have any
-- ARGV     2 the host key  3 the lease's id  4 the host is due in so many ms
--          5 its delay, ms  6 "1": the lease ends  7 "1": the blob is 8, else it
--          stays  then for each completion the item's number; done, failed, retry
--          or back; its argument: of failed what goes before the entry, of retry
--          the ms until it is ready; n; and n counters of meta, each with an amount
-- returns  1: done  0: the lease is not held, nothing was done  2: likewise, but a
--          completion ended this lease
-- cost     O(completions and their counters), O(items of the lease) at its end
local id, ending = ARGV[3], ARGV[6] == '1'
local FAILED, FAILEDHOSTS = KEYS[10], KEYS[11]

local runsOut = deadline(id)
if not runsOut then
  local ended = redis.call('HGET', STATE, 'e')
  local mine = ended and ended:sub(1, 16) == id and tonumber(ended:sub(17)) > now()
  return mine and 2 or 0
end

-- What becomes of the items: gone leave the lease, aside are fields of active,
-- failed are values of the failed list.
local lease = redis.call('HMGET', ACTIVE, 'o', 'a', 'x', 's')
local gone, leave, aside, failed, counts = {}, {}, {}, {}, {queued = 0, leased = 0}
local function add(counter, n) counts[counter] = (counts[counter] or 0) + n end

local function settle(number, what, argument)
  local entry = redis.call('HGET', ACTIVE, number)
  if not entry or gone[number] then return false end
  gone[number] = true
  leave[#leave + 1] = number
  add('leased', -1)
  if what == 'done' then
    add('done', 1)
  elseif what == 'failed' then
    add('failed', 1)
    failed[#failed + 1] = argument .. entry
  elseif what == 'retry' then
    local attempts = string.char(math.min(entry:byte(2) + 1, 255))
    local ready = int(soon() + tonumber(argument))
    add('queued', 1)
    add('retries', 1)
    add('delayed', 1)
    aside[#aside + 1] = 'r' .. number
    aside[#aside + 1] = ready .. ':' .. entry:sub(1, 1) .. attempts .. entry:sub(3)
  else
    add('queued', 1)
    aside[#aside + 1] = 'g' .. number
    aside[#aside + 1] = entry
  end
  return true
end

local at = 9
while at <= #ARGV do
  local n = tonumber(ARGV[at + 3])
  if settle(ARGV[at], ARGV[at + 1], ARGV[at + 2]) then
    for i = at + 4, at + 3 + 2 * n, 2 do add(ARGV[i], tonumber(ARGV[i + 1])) end
  end
  at = at + 4 + 2 * n
end
redis.call('LLEN', FAILED)
redis.call('SCARD', FAILEDHOSTS)
local was = standing()

local due = soon() + tonumber(ARGV[4])
local state = {'u', int(due), 'y', ARGV[5]}
if ARGV[7] == '1' then
  state[#state + 1], state[#state + 2] = 'b', ARGV[8]
end
if ending then
  state[#state + 1], state[#state + 2] = 'e', id .. int(runsOut)
end
redis.call('HSET', STATE, unpack(state))
all('RPUSH', FAILED, failed)
if #failed > 0 then redis.call('SADD', FAILEDHOSTS, HOST) end
if #leave > 0 then
  aside[#aside + 1], aside[#aside + 2] = 'o', lease[1] - #leave
  aside[#aside + 1], aside[#aside + 2] = 'a', lease[2] + counts.queued
  aside[#aside + 1], aside[#aside + 2] = 'x', lease[3] + #failed
  all('HSET', ACTIVE, aside)
  all('HDEL', ACTIVE, leave)
end
if ending then
  local open, back, again = holdings()
  add('leased', -#open)
  add('queued', #open) -- those given back count as queued already
  free(open, back, again, due, was)
elseif was.counted and lease[1] - #leave + lease[2] + counts.queued + was.waiting + was.delayed == 0 then
  redis.call('HSET', ACTIVE, 's', 1)
  add('hosts', -1)
end
for counter, n in pairs(counts) do count(counter, n) end
return 1
