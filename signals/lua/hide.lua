-- Users hide, show again, or are deleted: one whose state changed, or those whom a loader read.
-- KEYS  1..7 of live_shard
-- ARGV  1 the token that stood before the truth was read   2 1 if these are the last of all invisible users, else 0
--       then pairs: user, version of the user's state * 2 + (1 if hidden or deleted)
-- Returns 1, or 0 where another token stands, or none: then nothing changes.
-- Keeps: lc counts the sessions of users that lh does not hide, and of nobody else. Versions that are not newer
-- than the one held change nothing.
local held = redis.call('HGET', lh, LOADED)
if not held or string.sub(held, 3) ~= ARGV[1] then
  return 0
end
for i = 3, #ARGV, 2 do
  local user, packed = ARGV[i], tonumber(ARGV[i + 1])
  local before = tonumber(redis.call('HGET', lh, user) or '-1')
  if math.floor(packed / 2) > math.floor(before / 2) then
    show_or_hide(user, packed % 2 == 1)
    redis.call('HSET', lh, user, ARGV[i + 1])
  end
end
write_counts()
if ARGV[2] == '1' then
  redis.call('HSET', lh, LOADED, 'R:' .. ARGV[1])
end
return 1
