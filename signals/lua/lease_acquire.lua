-- Take a lease that nobody holds.
-- KEYS  1 lease:{name} the holder, "token:holder"   2 fence:{name} the last token given
-- ARGV  1 holder   2 ttl, ms
-- Returns the token, or nil while another holds it. Asked again by the one who holds it: the same token.
-- Keeps: every new holder's token is greater than all before it, also over a Redis that lost its data (the clock's
-- microseconds are its floor; a Lua number holds them exactly until the year 2255).
local held = redis.call('GET', KEYS[1])
if held then
  local token, holder = string.match(held, '^(%d+):(.*)$')
  if holder == ARGV[1] then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return tonumber(token)
  end
  -- Left over from before the clock was set back: no lease outlives its ttl by the clock of today.
  if redis.call('PTTL', KEYS[1]) > tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  return false
end
local time = redis.call('TIME')
local token = math.max(tonumber(redis.call('GET', KEYS[2]) or '0') + 1, time[1] * 1000000 + time[2])
local text = string.format('%.0f', token)
redis.call('SET', KEYS[2], text)
redis.call('SET', KEYS[1], text .. ':' .. ARGV[1], 'PX', ARGV[2])
return token
