-- Drops the dead of one shard and gives its counts: what changed since the answer whose token is shown, else all.
-- KEYS  1..8 of live_shard
-- ARGV  1 time in ms, '' for Redis's own   2 ttl, ms   3 how many to drop at most   4 token seen, '' for none
--       5 token of this answer      (at most 1,000 of 3: unpack has the Lua stack for about 8000)
-- Returns {now in ms, 1 if there is more to drop, kind, counts, 1 if ln may have got some since}: kind 0 nothing changed
-- and the seen token stands, 1 what changed, 2 the reader is to read all of lc, 3 the same, and there was no token,
-- 4 nothing to be had: who is hidden is not loaded, and the tokens stay as they are; counts of 1 as text, "game sessions
-- people" again and again, 0 and 0 for a game that nobody is in any more. Counts are what they are, not differences:
-- whoever reads lc after this answer may find some that changed since, and is told them once more with the next. So lc is
-- read by a command of its own, which costs Redis a tenth of what it costs in Lua.
-- Keeps: the answers under a chain of tokens add up to lc. A lost answer breaks the chain, and so does another reader or
-- a rewound Redis: the next answer is the whole shard.
if #dead > 0 then
  for i, held in ipairs(redis.call('HMGET', lg, unpack(dead))) do
    if held and held ~= ENDED then
      count(number_of(dead[i]), number_of(held), -1)
    end
  end
  redis.call('HDEL', lg, unpack(dead))
  redis.call('ZREM', lb, unpack(dead))
  write_counts()
end
for _, session in ipairs(ahead) do
  redis.call('ZADD', lb, now, session)
end
local more = (#dead == limit or #ahead == limit) and 1 or 0

if not loaded then
  return {now, more, 4, '', 0}
end

local whole = token ~= ARGV[4]
local counts, players = {}, 1
if not whole then
  local numbers = redis.call('SMEMBERS', ld)
  if #numbers == 0 then
    return {now, more, 0, '', 0}
  end
  players = 0
  for from = 1, #numbers, AT_ONCE do
    local held = redis.call('HMGET', lc, unpack(numbers, from, math.min(from + AT_ONCE - 1, #numbers)))
    for i, count_of in ipairs(held) do
      local number = numbers[from + i - 1]
      if number == '+' then
        players = 1
      else
        counts[#counts + 1] = number
        counts[#counts + 1] = count_of or '0 0'
      end
    end
  end
end
redis.call('DEL', ld)
redis.call('SET', lt, ARGV[5])
return {now, more, whole and (token and 2 or 3) or 1, table.concat(counts, ' '), players}
