-- Players of the day whom the recount has not taken yet, some of a shard's; those who hide by now are dropped.
-- KEYS  1 lg:{t}   2 lh:{t}   3 ln:{t}   of live_shard
-- ARGV  1 how many at most (1,000: unpack has the Lua stack for about 8000)
-- Returns {1 if there may be more, members of ln: day:game:user:session}. They stay in it until whoever took them has
-- counted them in and removes them.
-- Keeps: nobody is returned who hides as far as lh knows, and nobody at all before lh was told who does. Who is dropped
-- for hiding is told again by their first beat after it: lg forgets that they were told.
local lg, lh, ln = unpack(KEYS)
if string.sub(redis.call('HGET', lh, 'loaded') or '', 1, 1) ~= 'R' then
  return {1, {}}
end
local found = redis.call('SRANDMEMBER', ln, ARGV[1])
if #found == 0 then
  return {0, {}}
end
local users, taken = {}, {}
for i, player in ipairs(found) do
  users[i] = string.match(player, '^%d+:%d+:(%d+):')
end
for i, packed in ipairs(redis.call('HMGET', lh, unpack(users))) do
  if packed and tonumber(packed) % 2 == 1 then
    local day, number, session = string.match(found[i], '^(%d+):(%d+):(.*)$')
    if redis.call('HGET', lg, session) == number .. string.char(97 + day % 26) then
      redis.call('HSET', lg, session, number)
    end
    redis.call('SREM', ln, found[i])
  else
    taken[#taken + 1] = found[i]
  end
end
return {#found == tonumber(ARGV[1]) and 1 or 0, taken}
