-- prelude.lua: what every script begins with, after a line that sets EPOCH to
-- the run id of the server's life in which the script was loaded.
-- KEYS     what the script says
-- ARGV[1]  the time, ms since 1970; empty: the server's own (tests set it)
-- returns  nothing: it defines int, now and soon for the rest of the script
-- cost     O(1)

-- int formats a whole number: .. and redis.call would keep 14 or 17 digits.
local function int(n) return string.format('%.0f', n) end

-- now is the time in ms. It is asked for once in a script.
local told = tonumber(ARGV[1])
local function now()
  if not told then
    local time = redis.call('TIME')
    told = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  return told
end

-- soon is what times to come are counted from: now, rounded up, so that with
-- now rounded down nothing is early.
local function soon() return ARGV[1] == '' and now() + 1 or now() end
