-- CLAIM: become the builder of a view.
--
-- KEYS  1 st   2 dt   3 lr
-- ARGV  1 nonce   2 viewer   3 age in microseconds after which a build counts as dead
-- Returns the token, "B:nonce:seconds:microseconds", which now stands in st; false where the view is ready, or another
--       builder was there less than that age ago.
-- Keeps: at most one builder's BUILD can succeed, since only one token stands in st. The time is part of the token, so
--       that a claim that is repeated late, by a client library whose reply was lost, brings no old BUILD back to life.
--       The same nonce again answers the same and clears nothing. Whoever takes over reads everything afterwards, so
--       marks from before mean nothing any more.

local nonce = ARGV[1]
local now = redis.call('TIME')
local state = redis.call('GET', KEYS[1])
if state then
  local builder, seconds, micros = string.match(state, '^B:(.*):(%d+):(%d+)$')
  if not builder then return false end
  if builder == nonce then return state end
  local age = (now[1] - seconds) * 1000000 + (now[2] - micros)
  if age >= 0 and age < tonumber(ARGV[3]) then return false end -- below 0: the clock was set back, age unknown
end
local token = 'B:' .. nonce .. ':' .. now[1] .. ':' .. now[2]
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[1], token)
redis.call('ZADD', KEYS[3], now[1], ARGV[2]) -- so that a build that died leaves as an unread view does
return token
