-- recreate.lua: write the card of a crawl that was lost, so that no worker can open it
-- before it is rebuilt.
-- KEYS     1 the key that has the crawl's card
-- ARGV[1]  the card
-- ARGV[2]  why the crawl is closed
-- returns  1, or 0 if the crawl exists
-- cost     O(1)
if redis.call('HEXISTS', KEYS[1], 'card') == 1 then return 0 end
redis.call('HSET', KEYS[1], 'card', ARGV[1], 'ready', 1, 'closed', ARGV[2])
return 1
