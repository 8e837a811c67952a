-- readmit.lua: let items of a partition in again. A readmission is a field of the hash
-- readmitted: the fingerprint of the item -> the round that it allows, a space, and the
-- value in the list of failed items that the item has, or nothing. The script add ends a
-- readmission when it queues an item of the URL.
-- KEYS     1 meta, 2 readmitted, 3 exact
-- ARGV     2 the field later of meta, as the caller knows it
--          3 "1" if items in exact wait
--          4 "1" to change nothing
--          then two arguments for each item, which does not wait:
--            its fingerprint
--            its value in the list of failed items, '' if it has not failed
-- returns  a letter for each item:
--            r  it is readmitted
--            w  it waits
--          Instead of letters, it is the word 'stale' if the field later has changed, or
--          'lost' if the record of the filter is lost
-- cost     O(items); the caller sends at most 200
local used = redis.call('HMGET', KEYS[1], 'layers', 'later', 'top')
if not used[1] then return 'lost' end
if (used[2] or '0') ~= ARGV[2] then return 'stale' end
-- No item of the partition has had this round. An item of an earlier one can begin in it
-- in another way, but then it ends the readmission.
local round = (used[3] or 0) + 1
local answers, rows, fresh = {}, {}, 0
for i = 5, #ARGV, 2 do
  local row = redis.call('HGET', KEYS[2], ARGV[i])
  if ARGV[3] == '1' and redis.call('SISMEMBER', KEYS[3], ARGV[i]) == 1 then
    answers[#answers + 1] = 'w'
  else
    answers[#answers + 1] = 'r'
    if not row or row:match('^%d+ (.*)$') ~= ARGV[i + 1] then
      rows[#rows + 1], rows[#rows + 2] = ARGV[i], int(round) .. ' ' .. ARGV[i + 1]
      if not row then fresh = fresh + 1 end
    end
  end
end
if rows[1] and ARGV[4] ~= '1' then
  redis.call('HSET', KEYS[2], unpack(rows))
  redis.call('HSET', KEYS[1], 'top', int(round), 'readmitted', int((redis.call('HGET', KEYS[1], 'readmitted') or 0) + fresh))
end
return table.concat(answers)
