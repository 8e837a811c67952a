-- confirm.lua: show that the server's life that the script was loaded in goes on.
-- KEYS     1 meta
-- ARGV     2 "1": write something, so that a WAIT that follows on the connection
--          is about all that was written before
-- returns  1
-- cost     O(1)
if ARGV[2] == '1' then redis.call('HINCRBY', KEYS[1], 'confirms', 1) end
return 1
