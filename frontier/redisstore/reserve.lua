-- reserve.lua: add members to quota groups, unless a group is full.
-- KEYS     for each member the set of its group
-- ARGV     two for each member: the member, and the maximum number of members of its group
-- returns  for each member 1 if it is in its group, otherwise 0
-- cost     O(members); the caller keeps members <= 256
local has = {}
for i, group in ipairs(KEYS) do
  local key, most = ARGV[2 * i - 1], tonumber(ARGV[2 * i])
  has[i] = redis.call('SISMEMBER', group, key)
  if has[i] == 0 and redis.call('SCARD', group) < most then
    has[i] = redis.call('SADD', group, key)
  end
end
return has
