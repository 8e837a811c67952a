-- place.lua: functions for the scripts lease.lua, extend.lua and complete.lua, about the
-- place of a host in its site: see frontier.Store.Lease. The text of host.lua is before it.
-- KEYS     as in host.lua
-- returns  nothing: it defines names for the rest of the script
-- cost     O(1)
--
-- places is a hash, host -> the time, ms, until which it has its place, a space, and its
-- delay, ms. While the host is leased, that time is its delay after the deadline of the lease.

-- hold writes the place of the host. The keys of a site expire when it has no place.
local function hold(places, ends, delay)
  redis.call('HSET', places, HOST, int(ends) .. ' ' .. int(delay))
  local stays = ends - now() + 60000
  if redis.call('PTTL', places) < stays then redis.call('PEXPIRE', places, int(stays)) end
end

-- placeOf returns the delay with which the host has its place, or nil.
local function placeOf(places)
  local place = redis.call('HGET', places, HOST)
  return place and tonumber(place:match(' (%d+)$'))
end
