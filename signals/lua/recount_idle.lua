-- The beginning of recount, which has the keys and arguments: nothing to drop and nothing changed, as mostly.
local now = clock_ms(ARGV[1])
local limit = tonumber(ARGV[3])

local dead = redis.call('ZRANGEBYSCORE', lb, '-inf', now - tonumber(ARGV[2]), 'LIMIT', 0, limit)
-- The clock was set back: without this, these would live until it has caught up.
local ahead = redis.call('ZRANGEBYSCORE', lb, '(' .. now, '+inf', 'LIMIT', 0, limit)
local loaded = string.sub(redis.call('HGET', lh, LOADED) or '', 1, 1) == 'R'
local token = redis.call('GET', lt)
if #dead == 0 and #ahead == 0 and loaded and token == ARGV[4] and redis.call('EXISTS', ld) == 0 then
  return {now, 0, 0, '', 0}
end

