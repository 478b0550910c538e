-- Drops the dead of one shard and gives its counts: what changed since the answer whose token is shown, else all.
-- KEYS  1..8 of live_shard
-- ARGV  1 time in ms, '' for Redis's own   2 ttl, ms   3 how many to drop at most   4 token seen, '' for none
--       5 token of this answer      (at most 1,000 of 3: unpack has the Lua stack for about 8000)
-- Returns {now in ms, 1 if there is more to drop, kind, counts}: kind 0 nothing changed and the seen token stands, 1 what
-- changed, 2 the whole shard, 3 the whole shard, which held no token; counts packed as uint32 (game, sessions, people)*,
-- 0 and 0 for a game that nobody is in any more.
-- Keeps: the answers under a chain of tokens add up to lc and lq. A lost answer breaks the chain, and so does another
-- reader or a rewound Redis: the next answer is the whole shard.
local now = clock_ms(ARGV[1])
local limit = tonumber(ARGV[3])

local dead = redis.call('ZRANGEBYSCORE', lb, '-inf', now - tonumber(ARGV[2]), 'LIMIT', 0, limit)
if #dead > 0 then
  for i, number in ipairs(redis.call('HMGET', lg, unpack(dead))) do
    if number and number ~= ENDED then
      count(string.match(dead[i], '^%d+'), number, -1)
    end
  end
  redis.call('HDEL', lg, unpack(dead))
  redis.call('ZREM', lb, unpack(dead))
  write_counts()
end
-- The clock was set back: without this, these would live until it has caught up.
local ahead = redis.call('ZRANGEBYSCORE', lb, '(' .. now, '+inf', 'LIMIT', 0, limit)
for _, session in ipairs(ahead) do
  redis.call('ZADD', lb, now, session)
end
local more = (#dead == limit or #ahead == limit) and 1 or 0

local token = redis.call('GET', lt)
local whole = token ~= ARGV[4]
local numbers = redis.call(whole and 'HKEYS' or 'SMEMBERS', whole and lc or ld)
if not whole and #numbers == 0 then
  return {now, more, 0, ''}
end
local counts = {}
for from = 1, #numbers, 1000 do
  local part = {unpack(numbers, from, math.min(from + 999, #numbers))}
  local sessions = redis.call('HMGET', lc, unpack(part))
  local people = redis.call('HMGET', lq, unpack(part))
  for i, number in ipairs(part) do
    counts[#counts + 1] = struct.pack('<I4I4I4', number, sessions[i] or 0, people[i] or 0)
  end
end
redis.call('DEL', ld)
redis.call('SET', lt, ARGV[5])
return {now, more, whole and (token and 2 or 3) or 1, table.concat(counts)}
