-- write.lua: run a command that writes a few bytes, even if the server is full.
-- KEYS     1 the key of the command
-- ARGV[1]  HINCRBY, HSET or HSETNX
-- ARGV     then the arguments after the key
-- returns  the reply of the command
-- cost     that of the command
return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))
