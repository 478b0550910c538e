-- What the scripts of live_shard share that change its counts. Apart from it, since every function costs each call, and
-- most recounts find nothing to change.

-- What a script changes is gathered here and written once a user and a game, by `write_counts`, not once a session.
local games_of, hides, sessions_by, people_by, players = {}, {}, {}, {}, {}

local function hidden(user)
  if hides[user] == nil then
    local packed = redis.call('HGET', lh, user)
    hides[user] = packed ~= false and tonumber(packed) % 2 == 1
  end
  return hides[user]
end

local function add(number, sessions, people)
  sessions_by[number] = (sessions_by[number] or 0) + sessions
  people_by[number] = (people_by[number] or 0) + people
end

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
  if not hidden(user) then
    add(number, by, (before == 0 or after == 0) and by or 0)
  end
end

local function each_part(command, key, items)
  for from = 1, #items, AT_ONCE do
    redis.call(command, key, unpack(items, from, math.min(from + AT_ONCE - 1, #items)))
  end
end

local function write_counts()
  local playing, gone, changed, kept, empty = {}, {}, {}, {}, {}
  for user, games in pairs(games_of) do
    if games == ';' then
      gone[#gone + 1] = user
    else
      playing[#playing + 1] = user
      playing[#playing + 1] = games
    end
  end
  each_part('HSET', lu, playing)
  each_part('HDEL', lu, gone)
  for number, by in pairs(sessions_by) do
    if by ~= 0 or people_by[number] ~= 0 then
      changed[#changed + 1] = number
    end
  end
  for from = 1, #changed, AT_ONCE do
    local counts = redis.call('HMGET', lc, unpack(changed, from, math.min(from + AT_ONCE - 1, #changed)))
    for i, held in ipairs(counts) do
      local number = changed[from + i - 1]
      local sessions, people = string.match(held or '', '^(-?%d+) (-?%d+)$')
      sessions = (tonumber(sessions) or 0) + sessions_by[number]
      people = (tonumber(people) or 0) + people_by[number]
      if sessions == 0 and people == 0 then
        empty[#empty + 1] = number
      else
        kept[#kept + 1] = number
        kept[#kept + 1] = sessions .. ' ' .. people
      end
    end
  end
  each_part('HSET', lc, kept)
  each_part('HDEL', lc, empty)
  each_part('SADD', ld, changed)
  if #players > 0 then
    each_part('SADD', ln, players)
    redis.call('SADD', ld, '+')
  end
end

-- Take a user's sessions out of the counts, or count them again, unless that is how it is. The caller writes lh.
local function show_or_hide(user, hide)
  if hidden(user) == hide then
    return
  end
  hides[user] = hide
  local sign = hide and -1 or 1
  for number, sessions in string.gmatch(redis.call('HGET', lu, user) or '', '(%d+):(%d+);') do
    add(number, sign * tonumber(sessions), sign)
  end
end

