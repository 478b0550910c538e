-- A user hides, or shows again, or is deleted.
-- KEYS  1..7 of live_shard
-- ARGV  1 user   2 version of the user's state   3 1 if hidden or deleted, else 0
-- Returns 1, or 0 for a version that is not newer than the one held: then nothing changes.
-- Keeps: lc and lq count the sessions of users that lh does not hide, and of nobody else.
local user, version, hide = ARGV[1], tonumber(ARGV[2]), ARGV[3] == '1'
local packed = tonumber(redis.call('HGET', lh, user) or '-1')
if math.floor(packed / 2) >= version then
  return 0
end
local was = hidden(user)
redis.call('HSET', lh, user, string.format('%.0f', version * 2 + (hide and 1 or 0)))
if was ~= hide then
  local sign = hide and -1 or 1
  for number, sessions in string.gmatch(redis.call('HGET', lu, user) or '', '(%d+):(%d+);') do
    add(lc, number, sign * tonumber(sessions))
    add(lq, number, sign)
    redis.call('SADD', ld, number)
  end
end
return 1
