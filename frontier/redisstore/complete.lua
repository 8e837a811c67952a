-- complete.lua: make completions of a lease take effect, and store what its worker
-- learnt about the host. Items that the lease completed before are skipped.
-- KEYS     as in host.lua; 10 the host's failed items, 11 the hosts that have any,
--          12 the counts of the host and of others, 13 the places of the host's site
--          (place.lua); with an exact set also 14 exact
-- ARGV     2 the host key
--          3 the lease's id
--          4 the time until the host is due, ms; '' to keep its due time and its delay
--          5 the host's delay, ms
--          6 "1" if the lease ends
--          7 "1" if ARGV[8] replaces the host's blob
--          8 the new blob
--          9 how many hosts of the partition are counted at most
--          10 the generation of the partition that the answers to links rely on; '' if there
--            are none
--          then for each completion:
--            the item's number
--            done, failed, retry, last, hold or back
--            for failed, the bytes to store before the time and the entry; for retry, the time until
--              the item is ready, ms; otherwise ''
--            the item's fingerprint if it must be removed from the set exact, otherwise ''
--            the number of counters
--            for each counter, its name in meta and the amount to add
-- returns  1 if the completions took effect. Otherwise the lease is not held, and nothing
--          was changed. Then the script returns 2 if a completion has ended the lease
--          already, 3 if the partition was lost, and 0 in all other cases. It returns 4 if
--          the partition has another generation, and changes nothing
-- cost     O(completions, their counters, and the causes that the host has); when the lease ends, also O(items
--          of the lease)
local id, ending = ARGV[3], ARGV[6] == '1'
local FAILED, FAILEDHOSTS, COUNTS, PLACES, EXACT = unpack(KEYS, 10, 14)

local lease = redis.call('HMGET', ACTIVE, 'i', 'a', 'x', 's')
local state = redis.call('HMGET', STATE, 'e', 'y', 'd', 'u')
local runsOut = deadline(lease[1], id)
if not runsOut then
  local mine = state[1] and state[1]:sub(1, 16) == id and tonumber(state[1]:sub(17)) > now()
  return mine and 2 or redis.call('HEXISTS', META, 'epoch') == 1 and 0 or 3
end

if ARGV[10] ~= '' and ARGV[10] ~= (redis.call('HGET', META, 'generation') or '0') then return 4 end

-- gone (a table) and leave (a list) have the numbers of the completed items, which are
-- removed from active. back lists completed items that are given back, and again lists
-- those that will be tried again. failed lists new elements for the host's list of
-- failed items.
local gone, leave, back, again, failed, prints = {}, {}, {}, {}, {}, {}

-- mine are the counters of the completions that are also counted for the host, and done.
-- It is nil if no item was done, has failed or will be tried again.
local mine = nil

local function settle(number, what, argument)
  local entry = redis.call('HGET', ACTIVE, number)
  if not entry or gone[number] then return false end
  gone[number] = true
  leave[#leave + 1] = number
  add('leased', -1)
  if what ~= 'back' then mine = mine or {done = 0, pages = 0, bytes = 0} end
  if what == 'done' then mine.done = mine.done + 1 end
  if what == 'done' or what == 'failed' then
    add(what, 1)
    if what == 'failed' then failed[#failed + 1] = argument .. struct.pack('>I6', now()) .. entry end
    return true
  end
  add('queued', 1)
  if what == 'back' then
    back[#back + 1] = {number = tonumber(number), entry = entry}
    return true
  end
  if what == 'last' then
    again[#again + 1] = {number = tonumber(number), entry = entry, ready = 0}
    return true
  end
  add('delayed', 1)
  if what == 'hold' then
    again[#again + 1] = {number = tonumber(number), entry = entry, ready = PARKED}
    return true
  end
  add('retries', 1)
  entry = entry:sub(1, 1) .. string.char(math.min(entry:byte(2) + 1, 255)) .. entry:sub(3)
  again[#again + 1] = {number = tonumber(number), entry = entry, ready = soon() + tonumber(argument)}
  return true
end

-- counted returns the counts of the host after this call: done, pages, bytes, the time, s,
-- then each cause of failures, without status_, an equals sign and its number. It
-- returns nil if the host is one too many.
local function counted()
  local old = redis.call('HGET', COUNTS, HOST)
  if not old then
    if tonumber(redis.call('HGET', META, 'counted') or 0) >= tonumber(ARGV[9]) then return nil end
    add('counted', 1)
  end
  local done, pages, bytes, causes = (old or '0 0 0 0'):match('^(%d+) (%d+) (%d+) %d+(.*)$')
  local names, sums = {}, {}
  for name, n in causes:gmatch(' ([^= ]+)=(%d+)') do
    names[#names + 1], sums[name] = name, tonumber(n)
  end
  for counter, n in pairs(mine) do
    local name = counter:match('^err:(.*)')
    if name then
      name = name:gsub('^status_', '')
      if not sums[name] and #names >= 16 then name = 'others' end
      if not sums[name] then names[#names + 1], sums[name] = name, 0 end
      sums[name] = sums[name] + n
    end
  end
  local text = int(done + mine.done) .. ' ' .. int(pages + mine.pages) .. ' ' .. int(bytes + mine.bytes) .. ' ' .. int(math.floor(now() / 1000))
  for _, name in ipairs(names) do text = text .. ' ' .. name .. '=' .. int(sums[name]) end
  return text
end

local at = 11
while at <= #ARGV do
  local counters = at + 5
  local last = counters + 2 * tonumber(ARGV[at + 4]) - 1
  if settle(ARGV[at], ARGV[at + 1], ARGV[at + 2]) then
    if ARGV[at + 3] ~= '' then prints[#prints + 1] = ARGV[at + 3] end
    for i = counters, last, 2 do
      local counter, n = ARGV[i], tonumber(ARGV[i + 1])
      add(counter, n)
      if mine and (counter == 'pages' or counter == 'bytes' or counter:sub(1, 4) == 'err:') then
        mine[counter] = (mine[counter] or 0) + n
      end
    end
  end
  at = last + 1
end

if #failed > 0 then
  redis.call('LLEN', FAILED)
  redis.call('SCARD', FAILEDHOSTS)
end
if #prints > 0 then redis.call('SCARD', EXACT) end
local keep = ARGV[4] == ''
local due, write = tonumber(state[4] or 0), nil
if not keep then due = soon() + tonumber(ARGV[4]) end
local fields = {} -- of active
local place = ending and not keep and placeOf(PLACES)
if ending then
  local items, aside, waiting = holdings(gone)
  add('leased', -#items)
  add('queued', #items) -- items that are set aside already count as queued
  for _, item in ipairs(aside) do items[#items + 1] = item end
  for _, item in ipairs(again) do waiting[#waiting + 1] = item end
  write = free(items, back, waiting, due, standing())
elseif #leave > 0 then
  for _, item in ipairs(back) do
    fields[#fields + 1], fields[#fields + 2] = 'g' .. item.number, item.entry
  end
  for _, item in ipairs(again) do
    fields[#fields + 1], fields[#fields + 2] = 'r' .. item.number, int(item.ready) .. ':' .. item.entry
  end
  local aside = lease[2] + #back + #again
  if #back + #again > 0 then fields[#fields + 1], fields[#fields + 2] = 'a', aside end
  if #failed > 0 then fields[#fields + 1], fields[#fields + 2] = 'x', lease[3] + #failed end
  local idle = open(lease[2], lease[4]) == #leave and aside + tonumber(state[3] or 0) + lengths() == 0
  if idle and not lease[4] then
    fields[#fields + 1], fields[#fields + 2] = 's', 1
    add('hosts', -1)
  end
end
local tally = mine and counted()
local sums = totals()

local learnt = {}
-- While the lease continues, a due time is stored only if the new or the stored due
-- time is in the future.
if not keep and (ending or tonumber(ARGV[4]) > 0 or tonumber(state[4] or 0) > now()) then learnt[1], learnt[2] = 'u', int(due) end
if not keep and ARGV[5] ~= state[2] then learnt[#learnt + 1], learnt[#learnt + 2] = 'y', ARGV[5] end
if ARGV[7] == '1' then learnt[#learnt + 1], learnt[#learnt + 2] = 'b', ARGV[8] end
if ending then learnt[#learnt + 1], learnt[#learnt + 2] = 'e', id .. int(runsOut) end
all('HSET', STATE, learnt)
if tally then redis.call('HSET', COUNTS, HOST, tally) end
all('SREM', EXACT, prints)
all('RPUSH', FAILED, failed)
if #failed > 0 then redis.call('SADD', FAILEDHOSTS, HOST) end
if place then hold(PLACES, soon() + math.min(tonumber(ARGV[4]), place), place) end
if ending then
  write()
else
  all('HSET', ACTIVE, fields)
  all('HDEL', ACTIVE, leave)
end
all('HSET', META, sums)
return 1
