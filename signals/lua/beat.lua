-- Beats, moves and ends of one shard, in the order they came.
-- KEYS  1..7 of live_shard
-- ARGV  1 time in ms, '' for Redis's own   2 ttl, ms   then pairs: user:session, game's number (0: the session ends)
--       at most 1,000 pairs: unpack has the Lua stack for about 8000
-- Returns {now in ms, one character an item: 1 the session lives (it was ended, for an end), 0 it does not}.
-- Keeps: run twice, it leaves what running it once leaves. An ended session stays as a mark for one ttl, in which a late
-- beat does not bring it back. An end of what does not live changes nothing. Whoever beats in a game on a day and is not
-- hidden is in ln once: with the first beat there, with the first after midnight, or with the first after hiding.
local now = clock_ms(ARGV[1])
local now_text = string.format('%d', now)
local dead_at = now - tonumber(ARGV[2])
local day = math.floor(now / 86400000)
local letter = string.char(97 + day % 26)

local sessions, answers = {}, {}
for i = 3, #ARGV, 2 do
  sessions[#sessions + 1] = ARGV[i]
end
local held_by = {} -- session -> what lg holds as of this item
for i, held in ipairs(redis.call('HMGET', lg, unpack(sessions))) do
  held_by[sessions[i]] = held
end
local told = {} -- game -> what lg holds of a session in it whose user was told to be a player of the day
local beats, beaten, moves, moved = {}, {}, {}, {} -- to be written at the end, once a session

local function beat(session)
  if not beaten[session] then
    beaten[session] = true
    beats[#beats + 1] = now_text
    beats[#beats + 1] = session
  end
end

local function move(session, held)
  beat(session)
  held_by[session] = held
  if not moved[session] then
    moved[session] = true
    moves[#moves + 1] = session
  end
end

-- The user is in the game today; what lg is to hold of it.
local function play(session, user, number)
  if hidden(user) then
    return number
  end
  players[#players + 1] = day .. ':' .. number .. ':' .. session
  return told[number]
end

for i, session in ipairs(sessions) do
  local number, held = ARGV[2 * i + 2], held_by[session]
  local answer = '1'
  if not told[number] then
    told[number] = number .. letter
  end
  if held == told[number] then
    -- The usual case. Where the session is dead and not yet dropped it is still counted, so it only lives on.
    beat(session)
  elseif held and held ~= ENDED and number_of(held) == number then
    local holds = play(session, number_of(session), number)
    if holds == held then
      beat(session)
    else
      move(session, holds)
    end
  else
    local last = beaten[session] and now or held and tonumber(redis.call('ZSCORE', lb, session))
    local live = last and last > dead_at
    if number == ENDED then
      if live and held ~= ENDED then
        count(number_of(session), number_of(held), -1)
        move(session, ENDED)
      else
        answer = '0'
      end
    elseif live and held == ENDED then
      answer = '0'
    else
      local user = number_of(session)
      if held and held ~= ENDED then
        count(user, number_of(held), -1)
      end
      count(user, number, 1)
      move(session, play(session, user, number))
    end
  end
  answers[i] = answer
end

if #beats > 0 then
  redis.call('ZADD', lb, unpack(beats))
end
if #moves > 0 then
  local written = {}
  for _, session in ipairs(moves) do
    written[#written + 1] = session
    written[#written + 1] = held_by[session]
  end
  redis.call('HSET', lg, unpack(written))
end
write_counts()
return {now, table.concat(answers)}
