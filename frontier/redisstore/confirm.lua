-- confirm.lua: prove that the server has not restarted since the script was loaded.
-- KEYS     1 meta
-- ARGV     2 "1" to write something, so that the next WAIT on the connection waits
--          for all earlier writes
-- returns  1
-- cost     O(1)
if ARGV[2] == '1' then redis.call('HINCRBY', KEYS[1], 'confirms', 1) end
return 1
