-- EVICT: drop everything of some views of one shard.
--
-- KEYS  1 lr   2.. the 68 keys of each view
-- ARGV  the viewers
-- Returns how many of them had a view, or one being built.
-- Keeps I1: a view leaves whole or not at all. It needs no token: a view too few is slow, never wrong.

local gone = 0
for i = 1, #ARGV do
  local first = 2 + (i - 1) * 68
  if redis.call('UNLINK', unpack(KEYS, first, first + 67)) > 0 then gone = gone + 1 end
  redis.call('ZREM', KEYS[1], ARGV[i])
end
return gone
