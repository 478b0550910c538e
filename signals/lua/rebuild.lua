-- Builds the counts of a shard of live sessions anew from its sets, where the audit found that they disagree.
-- KEYS  1..8 of live_shard
-- ARGV  1 a token for the counts as they are then
-- Returns how many games and users had been counted wrong.
-- Keeps: afterwards lg and lb name the same sessions, lu and lc are what lg and lh say, and the recount reads the whole.
local found, sessions_of = redis.call('HGETALL', lg), {}
for i = 1, #found, 2 do
  if redis.call('ZSCORE', lb, found[i]) then
    sessions_of[found[i]] = found[i + 1]
  else
    redis.call('HDEL', lg, found[i]) -- it would never be dropped
  end
end
for _, session in ipairs(redis.call('ZRANGE', lb, 0, -1)) do
  if not sessions_of[session] then
    redis.call('ZREM', lb, session)
  end
end

local function held_in(key)
  local held, flat = {}, redis.call('HGETALL', key)
  for i = 1, #flat, 2 do
    held[flat[i]] = flat[i + 1]
  end
  return held
end

-- A text that does not depend on the order in which a user came to their games.
local function sorted(games)
  local parts = {}
  for part in string.gmatch(games or '', '[^;]+') do
    parts[#parts + 1] = part
  end
  table.sort(parts)
  return table.concat(parts, ';')
end

local users, counts = held_in(lu), held_in(lc)
redis.call('DEL', lu, lc)
for session, held in pairs(sessions_of) do
  if held ~= ENDED then
    games_of[number_of(session)] = games_of[number_of(session)] or ';'
    count(number_of(session), number_of(held), 1)
  end
end
local wrong = 0
for user, games in pairs(games_of) do
  if sorted(users[user]) ~= sorted(games) then
    wrong = wrong + 1
  end
  users[user] = nil
end
for number, sessions in pairs(sessions_by) do
  if counts[number] ~= sessions .. ' ' .. people_by[number] then
    wrong = wrong + 1
  end
  counts[number] = nil
end
for _ in pairs(users) do
  wrong = wrong + 1
end
for _ in pairs(counts) do
  wrong = wrong + 1
end
write_counts()
redis.call('SET', lt, ARGV[1])
return wrong
