-- Beats, moves and ends of one shard, in the order they came.
-- KEYS  1..7 of live_shard
-- ARGV  1 time in ms, '' for Redis's own   2 ttl, ms   then pairs: user:session, game's number (0: the session ends)
-- Returns {now in ms, one character an item: 1 the session lives (it was ended, for an end), 0 it does not}.
-- Keeps: run twice, it leaves what running it once leaves. An ended session stays as a mark for one ttl, in which a late
-- beat does not bring it back. An end of what does not live changes nothing.
local now = clock_ms(ARGV[1])
local dead_at = now - tonumber(ARGV[2])
local answers = {}
for i = 3, #ARGV, 2 do
  local session, number = ARGV[i], ARGV[i + 1]
  local held = redis.call('HGET', lg, session)
  local answer = '1'
  if held == number and number ~= ENDED then
    -- The usual case. Where the session is dead and not yet dropped it is still counted, so it only lives on.
    redis.call('ZADD', lb, now, session)
  else
    local user = string.match(session, '^%d+')
    local last = held and tonumber(redis.call('ZSCORE', lb, session))
    local live = last and last > dead_at
    if number == ENDED then
      if live and held ~= ENDED then
        count(user, held, -1)
        redis.call('HSET', lg, session, ENDED)
        redis.call('ZADD', lb, now, session)
      else
        answer = '0'
      end
    elseif live and held == ENDED then
      answer = '0'
    else
      if held and held ~= ENDED then
        count(user, held, -1)
      end
      count(user, number, 1)
      redis.call('HSET', lg, session, number)
      redis.call('ZADD', lb, now, session)
    end
  end
  answers[#answers + 1] = answer
end
return {now, table.concat(answers)}
