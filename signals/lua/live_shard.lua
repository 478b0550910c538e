-- What beat, recount, hide and claim_hidden share: one shard of live sessions, and the counts kept beside its sets.
-- KEYS  1 lb:{t} sorted set  user:session -> last beat, Redis's ms      2 lg:{t} hash  user:session -> game, 0 = ended
--       3 lu:{t} hash  user -> ";game:sessions;game:sessions;…"         4 lc:{t} hash  game -> sessions
--       5 lq:{t} hash  game -> people                                   6 ld:{t} set   games changed since `lt`
--       7 lh:{t} hash  user -> version * 2 + (1 = hidden or deleted)    8 lt:{t} token of the last recount's answer
--       and in lh the field `loaded`: L:truth:nonce once somebody announced to load who is hidden, R:truth:nonce when done;
--       truth:nonce is the token that whoever read the truth must bring. It is lost with lh: who finds it has lost nothing.
-- Keeps: lc and lq are exactly what lg says of users that lh does not hide, without 0s. Whether a session in lg still
-- lives is lb's to say, by one rule: dead where last beat <= now - ttl. Ids stay text: a Lua number has 53 bits.
local lb, lg, lu, lc, lq, ld, lh, lt = unpack(KEYS)
local ENDED = '0'
local LOADED = 'loaded'

-- Redis's clock in ms; tests bring their own.
local function clock_ms(given)
  if given ~= '' then
    return tonumber(given)
  end
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function add(key, number, by)
  if redis.call('HINCRBY', key, number, by) == 0 then
    redis.call('HDEL', key, number)
  end
end

local function hidden(user)
  local packed = redis.call('HGET', lh, user)
  return packed ~= false and tonumber(packed) % 2 == 1
end

-- What a script changes is gathered here and written once a user and a game, by `write_counts`, not once a session.
local games_of, hides, sessions_by, people_by = {}, {}, {}, {}

-- One session of a user more (by = 1) or less (by = -1) in a game.
local function count(user, number, by)
  local games = games_of[user] or redis.call('HGET', lu, user) or ';'
  local from, to, sessions = string.find(games, ';' .. number .. ':(%d+);')
  local before = tonumber(sessions) or 0
  local after = before + by
  if from then
    games = string.sub(games, 1, from) .. string.sub(games, to + 1)
  end
  if after > 0 then
    games = games .. number .. ':' .. after .. ';'
  end
  games_of[user] = games
  if hides[user] == nil then
    hides[user] = hidden(user)
  end
  if hides[user] then
    return
  end
  sessions_by[number] = (sessions_by[number] or 0) + by
  if before == 0 or after == 0 then
    people_by[number] = (people_by[number] or 0) + by
  end
end

local function write_counts()
  local playing, gone, changed = {}, {}, {}
  for user, games in pairs(games_of) do
    if games == ';' then
      gone[#gone + 1] = user
    else
      playing[#playing + 1] = user
      playing[#playing + 1] = games
    end
  end
  if #playing > 0 then
    redis.call('HSET', lu, unpack(playing))
  end
  if #gone > 0 then
    redis.call('HDEL', lu, unpack(gone))
  end
  for number, by in pairs(sessions_by) do
    local people = people_by[number] or 0
    if by ~= 0 or people ~= 0 then
      changed[#changed + 1] = number
      if by ~= 0 then
        add(lc, number, by)
      end
      if people ~= 0 then
        add(lq, number, people)
      end
    end
  end
  if #changed > 0 then
    redis.call('SADD', ld, unpack(changed))
  end
end

-- Take a user's sessions out of the counts, or count them again, unless that is how it is. The caller writes lh.
local function show_or_hide(user, hide)
  if hidden(user) == hide then
    return
  end
  local sign = hide and -1 or 1
  for number, sessions in string.gmatch(redis.call('HGET', lu, user) or '', '(%d+):(%d+);') do
    add(lc, number, sign * tonumber(sessions))
    add(lq, number, sign)
    redis.call('SADD', ld, number)
  end
end

