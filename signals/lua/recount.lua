-- Drops the dead of one shard and gives its counts: what changed since the answer whose token is shown, else all.
-- KEYS  1..8 of live_shard
-- ARGV  1 time in ms, '' for Redis's own   2 ttl, ms   3 how many to drop at most   4 token seen, '' for none
--       5 token of this answer      (at most 1,000 of 3: unpack has the Lua stack for about 8000)
-- Returns {now in ms, 1 if there is more to drop, kind, counts}: kind 0 nothing changed and the seen token stands, 1 what
-- changed, 2 the whole shard, 3 the whole shard, which held no token, 4 nothing to be had: who is hidden is not loaded,
-- and the tokens stay as they are; counts packed as uint32 (game, sessions, people)*,
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

if string.sub(redis.call('HGET', lh, LOADED) or '', 1, 1) ~= 'R' then
  return {now, more, 4, ''}
end

local token = redis.call('GET', lt)
local whole = token ~= ARGV[4]
local numbers = redis.call(whole and 'HKEYS' or 'SMEMBERS', whole and lc or ld)
if not whole and #numbers == 0 then
  return {now, more, 0, ''}
end

-- Counts of the games in `numbers`. Where they are many of a hash, it is read as one: a small hash is a list to Redis,
-- and looking a field up reads half of it.
local function counts_in(key)
  local counts = {}
  if redis.call('HLEN', key) < 8 * #numbers then
    local pairs_of = redis.call('HGETALL', key)
    for i = 1, #pairs_of, 2 do
      counts[pairs_of[i]] = pairs_of[i + 1]
    end
  else
    for from = 1, #numbers, 1000 do
      local to = math.min(from + 999, #numbers)
      for i, held in ipairs(redis.call('HMGET', key, unpack(numbers, from, to))) do
        counts[numbers[from + i - 1]] = held
      end
    end
  end
  return counts
end

local sessions, people, packed = counts_in(lc), counts_in(lq), {}
for i, number in ipairs(numbers) do
  packed[i] = struct.pack('<I4I4I4', number, sessions[number] or 0, people[number] or 0)
end
redis.call('DEL', ld)
redis.call('SET', lt, ARGV[5])
return {now, more, whole and (token and 2 or 3) or 1, table.concat(packed)}
