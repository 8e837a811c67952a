-- peek.lua: return the work that a partition has now, and the time until it has more.
-- KEYS     1 meta, 2 due, 3 leased, 4 delayed
-- ARGV     2 the maximum number of due hosts, 3 the maximum length of the other lists
-- returns  1 the time, ms
--          2 the ms until a host that is not in list 4 is due, -1 if there is no such host
--          3 the ms until the next lease runs out or the next delayed item is ready,
--            whichever is first, apart from those in the lists 5 and 6; -1 if there are
--            no others. 2 and 3 are 0 if that time has already come
--          4 hosts that are due, each with its due time, ms
--          5 hosts whose lease ran out
--          6 members of delayed that are ready
--          7 1 if the epoch is new to the partition, otherwise 0
-- cost     O(log n) and O(length of the reply)

-- upTo returns the first members of a sorted set whose time has come, each with its
-- time. The argument most is the maximum number of members. upTo also returns the ms
-- until the time of the next member, or -1 if there is none.
local function upTo(key, most)
  local first = redis.call('ZRANGE', key, 0, most, 'WITHSCORES')
  local come = {}
  for i = 1, #first, 2 do
    local wait = tonumber(first[i + 1]) - now()
    if wait > 0 or i == 2 * most + 1 then return come, math.max(wait, 0) end
    come[i], come[i + 1] = first[i], first[i + 1]
  end
  return come, -1
end

local function sooner(a, b)
  if a < 0 or b >= 0 and b < a then return b end
  return a
end

local function names(pairs)
  local list = {}
  for i = 1, #pairs, 2 do list[#list + 1] = pairs[i] end
  return list
end

local due, untilDue = upTo(KEYS[2], tonumber(ARGV[2]))
local lost, untilLost = upTo(KEYS[3], tonumber(ARGV[3]))
local ready, untilReady = upTo(KEYS[4], tonumber(ARGV[3]))
-- Before the end of a hold (hold.lua) no host is due.
local known = redis.call('HMGET', KEYS[1], 'epoch', 'hold')
local new = known[1] and known[1] ~= EPOCH -- nil if the partition was lost
local held = (tonumber(known[2]) or 0) - now()
if held > 0 and (#due > 0 or untilDue >= 0) then
  due, untilDue = {}, math.max(held, untilDue)
end
return {now(), untilDue, sooner(untilLost, untilReady), due, names(lost), names(ready), new and 1 or 0}
