-- free.lua: functions for the scripts complete.lua, expire.lua, ready.lua and
-- retry.lua. free ends the lease of a host, and puts the items that were not completed
-- back into the queues.
-- KEYS     as in host.lua, which comes before it
-- returns  nothing: it defines names for the rest of the script
-- cost     O(items of the lease)

-- queueOf returns which queue an entry belongs to, by its priority.
local function queueOf(entry) return math.floor(entry:byte(1) / 2) % 4 + 1 end

-- standing reads the values of the host and its partition that free needs.
local function standing()
  local state = redis.call('HMGET', STATE, 'd', 'u', 'y')
  redis.call('ZCARD', DELAYED)
  return {
    listed = redis.call('ZSCORE', DUE, HOST), -- in due
    waiting = lengths(),
    delayed = tonumber(state[1] or 0),
    due = tonumber(state[2] or 0),
    delay = tonumber(state[3]),
    counted = not redis.call('HGET', ACTIVE, 's'),
    member = tonumber(redis.call('HGET', META, 'z') or 0),
  }
end

-- free returns items to their queues. The first three arguments are lists like those
-- that holdings returns. Open items and items that were given back go to the heads of the
-- queues, in the order of their numbers. Items that will be tried again go to the ends
-- of the queues, or to the delayed items if they are not ready. The argument due is the
-- time at which the host becomes due, and was is the result of standing. free itself
-- writes nothing. It calls add, and returns a function that makes the writes.
local function free(open, back, again, due, was)
  for _, item in ipairs(back) do open[#open + 1] = item end
  table.sort(open, earlier)
  table.sort(again, earlier)
  local head, tail, wait = {{}, {}, {}}, {{}, {}, {}}, {}
  for i = #open, 1, -1 do -- backwards, because LPUSH puts the last one first
    local queue = head[queueOf(open[i].entry)]
    queue[#queue + 1] = open[i].entry
  end
  local waiting, delayed = was.waiting + #open, 0
  for _, item in ipairs(again) do
    if item.ready <= now() then
      local queue = tail[queueOf(item.entry)]
      queue[#queue + 1] = item.entry
      waiting = waiting + 1
      if item.ready > 0 then add('delayed', -1) end
    else
      delayed = delayed + 1
      wait[2 * delayed - 1] = int(item.ready)
      wait[2 * delayed] = struct.pack('>I8', was.member + delayed) .. HOST .. '\0' .. item.entry
    end
  end
  add('z', delayed)
  local idle = waiting + delayed + was.delayed == 0
  if idle and was.counted then add('hosts', -1) end

  return function()
    for i, queue in ipairs(QUEUES) do
      all('LPUSH', queue, head[i])
      all('RPUSH', queue, tail[i])
    end
    if delayed > 0 then
      all('ZADD', DELAYED, wait)
      redis.call('HINCRBY', STATE, 'd', delayed)
    end
    if waiting > 0 then redis.call('ZADD', DUE, int(due), HOST) end
    redis.call('ZREM', LEASED, HOST)
    redis.call('DEL', ACTIVE)
    -- The state of a host without items is kept until its due time has passed, and
    -- long enough for a worker that lost a reply to repeat its last completion.
    if idle then redis.call('PEXPIRE', STATE, int(math.max(due - now(), 60000))) end
  end
end
