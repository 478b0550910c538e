-- Whoever is about to read from the truth who is hidden or deleted announces it, before the read.
-- KEYS  1..8 of live_shard
-- ARGV  1 id of the truth, and of the form in which these keys are kept   2 a nonce
-- Returns the token to bring to hide, or false where the users of this truth were told already.
-- Keeps: a token stands in a shard only while lh has lost nothing since it was set. Where another loader has announced
-- itself, its token serves both: each read the truth after it was set. Of another truth nothing is kept: its game
-- numbers and versions mean something else. Nor of another form, which these scripts cannot read.
local held = redis.call('HGET', lh, LOADED)
local truth = held and string.match(held, '^%a:(.*):[^:]*$')
if truth == ARGV[1] then
  return string.sub(held, 1, 1) == 'L' and string.sub(held, 3) or false
end
if truth then
  redis.call('DEL', unpack(KEYS))
else
  -- What stands here without a token may be older than any version: nobody is hidden until the truth says so.
  for _, user in ipairs(redis.call('HKEYS', lh)) do
    show_or_hide(user, false)
  end
  write_counts()
  redis.call('DEL', lh)
end
local token = ARGV[1] .. ':' .. ARGV[2]
redis.call('HSET', lh, LOADED, 'L:' .. token)
return token
