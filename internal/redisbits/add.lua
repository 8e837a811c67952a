-- add.lua: add fingerprints to the newest layer of one chain, except those whose bits
-- are set already. block.lua comes before it in the script.
-- KEYS     the chain's record, then segments of its newest layer; all with one hash tag
-- ARGV[1]  number of layers that the caller knows
-- ARGV[2]  number of keys that the newest layer is sized for, '' for no limit
-- ARGV     then the header of each segment
--          then five arguments for each fingerprint:
--            the index of its segment in KEYS
--            the offset of the first byte of its block
--            the offset of the last byte of its block
--            the block as the caller read it
--            the block with the bits of the fingerprint set
-- returns  for each fingerprint:
--            1 if it was added
--            0 if it was known
--            2 if the layer is full
--            3 if the block has lost bits, so the caller must test again
--          If nothing was written, the script returns one word instead: 'stale', 'lost'
--          or 'foreign', as explained in block.lua
-- cost     O(fingerprints), two commands for each; the caller sends at most 256
local chain, layers = KEYS[1], ARGV[1]
local room, fault = bloom_begin(chain, layers, ARGV[2])
if fault then return fault end
for i = 2, #KEYS do
  fault = bloom_segment(KEYS[i], ARGV[i + 1])
  if fault then return fault end
end
local answers, added = {}, 0
for at = #KEYS + 2, #ARGV, 5 do
  local segment, from = KEYS[tonumber(ARGV[at])], ARGV[at + 1]
  local block = bloom_test(segment, from, ARGV[at + 2], ARGV[at + 3], ARGV[at + 4])
  local answer = 0
  if block == nil then
    answer = 3
  elseif block and added >= room then
    answer = 2
  elseif block then
    bloom_set(segment, from, block)
    added, answer = added + 1, 1
  end
  answers[#answers + 1] = answer
end
bloom_end(chain, layers, added)
return answers
