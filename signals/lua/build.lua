-- BUILD: write a whole view and call it ready.
--
-- KEYS  1 st   2 ec   3 pl   4 dt   5 lr   6..69 the fp buckets 0..63
-- ARGV  1 token   2 nonce of the next round   3 viewer
--       4 ec as a payload of RESTORE, '' for none: the rows of the edges that are on   5..68 each bucket likewise
--       69.. the pull owners
-- Returns {1} built, {2} refused: st is not the token, or {3, next token, {owners}}: these changed while the view was
--       being built; the builder reads them again and comes back with the next token.
-- Keeps I1: rows and counts come from the same logs and are written at once. A repeated call finds the ready state that
--       it made itself, or the next token, and writes nothing; that is why a round with changes ends in a new token.

local token = ARGV[1]
local ready = 'R' .. string.sub(token, 2)
local state = redis.call('GET', KEYS[1])
if state == ready then return {1} end
if state ~= token then return {2} end

local now = redis.call('TIME')
local dirty = redis.call('SMEMBERS', KEYS[4])
if #dirty > 0 then
  local following = 'B:' .. ARGV[2] .. ':' .. now[1] .. ':' .. now[2]
  redis.call('DEL', KEYS[4])
  redis.call('SET', KEYS[1], following)
  return {3, following, dirty}
end

redis.call('DEL', KEYS[2], KEYS[3], unpack(KEYS, 6, 69))
if ARGV[4] ~= '' then redis.call('RESTORE', KEYS[2], '0', ARGV[4]) end
for bucket = 0, 63 do
  local payload = ARGV[5 + bucket]
  if payload ~= '' then redis.call('RESTORE', KEYS[6 + bucket], '0', payload) end
end
for at = 69, #ARGV, 4000 do -- Lua unpacks fewer than 8,000 values
  redis.call('SADD', KEYS[3], unpack(ARGV, at, math.min(at + 3999, #ARGV)))
end
redis.call('SET', KEYS[1], ready)
redis.call('ZADD', KEYS[5], now[1], ARGV[3])
return {1}
