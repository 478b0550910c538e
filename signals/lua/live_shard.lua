-- What beat, recount, hide, claim_hidden and rebuild share: the keys of one shard of live sessions. live_counts follows.
-- KEYS  1 lb:{t} sorted set  user:session -> last beat, Redis's ms
--       2 lg:{t} hash  user:session -> game, 0 = ended; behind the game a letter for the day on which its user was last
--                      told to be one of the day's players, and none where that was not told: the user hides
--       3 lu:{t} hash  user -> ";game:sessions;game:sessions;…"         4 lc:{t} hash  game -> "sessions people"
--       5 ld:{t} set   games changed since `lt`, and '+' where ln got some
--       6 lh:{t} hash  user -> version * 2 + (1 = hidden or deleted)
--       7 ln:{t} set   day:game:user:session, the day's players whom the recount has not counted yet (days since 1970, UTC)
--       8 lt:{t} token of the last recount's answer
--       and in lh the field `loaded`: L:truth:nonce once somebody announced to load who is hidden, R:truth:nonce when done;
--       truth:nonce is the token that whoever read the truth must bring. It is lost with lh: who finds it has lost nothing.
-- Keeps: lc is exactly what lg says of users that lh does not hide, without 0s. Whether a session in lg still
-- lives is lb's to say, by one rule: dead where last beat <= now - ttl. Ids stay text: a Lua number has 53 bits.
local lb, lg, lu, lc, ld, lh, ln, lt = unpack(KEYS)
local ENDED = '0'
local LOADED = 'loaded'
local AT_ONCE = 1000 -- unpack has the Lua stack for about 8000

-- Redis's clock in ms; tests bring their own.
local function clock_ms(given)
  if given ~= '' then
    return tonumber(given)
  end
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function number_of(held)
  return string.match(held, '^%d+')
end

