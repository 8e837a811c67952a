-- reserve.lua: add keys to their quota groups, unless a group is full.
-- KEYS     for each key the set of its group
-- ARGV     two for each key: the key, and the maximum number of keys in its group
-- returns  for each key 1 if it is in its group, else 0
-- cost     O(keys); the caller keeps keys <= 256
local has = {}
for i, group in ipairs(KEYS) do
  local key, most = ARGV[2 * i - 1], tonumber(ARGV[2 * i])
  has[i] = redis.call('SISMEMBER', group, key)
  if has[i] == 0 and redis.call('SCARD', group) < most then
    has[i] = redis.call('SADD', group, key)
  end
end
return has
