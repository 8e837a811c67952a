-- prelude.lua: the start of every script that newScript makes (script.go). A line that
-- sets EPOCH to the run id of the server comes before it.
-- KEYS     as the script says
-- ARGV[1]  the time, ms since 1970, if a test sets it; '' for the server's time
-- returns  nothing: it defines int, now, soon and PARKED for the rest of the script
-- cost     O(1)

-- int formats a whole number. The operator .. would keep only 14 digits of it, and
-- redis.call only 17.
local function int(n) return string.format('%.0f', n) end

-- now returns the time in ms. It is the same during the whole script.
local told = tonumber(ARGV[1])
local function now()
  if not told then
    local time = redis.call('TIME')
    told = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  return told
end

-- soon returns the time in ms, rounded up. Future times count from soon. If they
-- counted from now, which is rounded down, things would happen too early.
local function soon() return ARGV[1] == '' and now() + 1 or now() end

-- PARKED is added to the due time of a host that is paused: see park.go.
local PARKED = 4503599627370496
