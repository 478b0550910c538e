-- The recount's leader publishes what changed in the totals.
-- KEYS  1 lease:{live}   2 live_totals:{live} hash  game -> uint32 sessions, people, players of the day, not all of them 0
--       3 live_totals_changes:{live} list, newest first: what each of the last publications changed
--       4 live_totals_state:{live} hash  epoch, sequence, as_of, known_from, origin, settles_at, players_as_of,
--         players_from, players_settle_at (read_totals says what)
-- ARGV  1 the leader's claim on the lease   2, 3 epoch and sequence it builds on, '' and 0 for none
--       4, 5 epoch and sequence of this publication   6..12 what else the state holds, in that order
--       13 what changed: uint32 (game, sessions, people, players)*   14 how many changes to keep
-- Returns 1 published, 0 the lease is not held by this claim, -1 something else stands where this was to build on.
-- Keeps: totals is what its leader counted at as_of; within an epoch, changes n+1..m turn the totals of n into those of m.
-- A deposed leader changes nothing. Run twice, the second run changes nothing.
local lease, totals, changes, state = unpack(KEYS)
if redis.call('GET', lease) ~= ARGV[1] then
  return 0
end
local held = redis.call('HMGET', state, 'epoch', 'sequence')
local epoch, sequence = held[1] or '', held[2] or '0'
if epoch == ARGV[4] and sequence == ARGV[5] then
  return 1
end
if epoch ~= ARGV[2] or sequence ~= ARGV[3] then
  return -1
end

local packed = ARGV[13]
local NOTHING = string.rep('\0', 12)
local pairs_of, gone = {}, {}
local function write()
  if #pairs_of > 0 then
    redis.call('HSET', totals, unpack(pairs_of))
    pairs_of = {}
  end
  if #gone > 0 then
    redis.call('HDEL', totals, unpack(gone))
    gone = {}
  end
end
for at = 1, #packed, 16 do
  local number, counts = struct.unpack('<I4', packed, at), string.sub(packed, at + 4, at + 15)
  if counts == NOTHING then
    gone[#gone + 1] = number
  else
    pairs_of[#pairs_of + 1] = number
    pairs_of[#pairs_of + 1] = counts
  end
  if #pairs_of + #gone > 1000 then -- unpack has the Lua stack for about 8000
    write()
  end
end
write()

-- Entries of an earlier epoch may stay: nobody who shows this one goes back further than it.
redis.call('LPUSH', changes, packed)
redis.call('LTRIM', changes, 0, ARGV[14] - 1)
redis.call('HSET', state, 'epoch', ARGV[4], 'sequence', ARGV[5], 'as_of', ARGV[6], 'known_from', ARGV[7],
  'origin', ARGV[8], 'settles_at', ARGV[9], 'players_as_of', ARGV[10], 'players_from', ARGV[11],
  'players_settle_at', ARGV[12])
return 1
