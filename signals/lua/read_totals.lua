-- What was published since the publication that the reader shows, else the whole totals. Writes nothing.
-- KEYS  2..4 of publish_totals, as 1..3
-- ARGV  1 time in ms, '' for Redis's own   2, 3 epoch and sequence seen, '' and 0 for none
-- Returns {now in ms, {epoch, sequence, as_of, known_from, origin, settles_at, players_as_of, players_from,
--          players_settle_at}, kind, counts}
--   as_of: Redis's ms of the recount    known_from: before it, counts are too small: Redis lost sessions
--   origin: a random id of this store of totals    settles_at: the same as known_from, for who remembers another origin
--   players_as_of, players_from, players_settle_at: the same as as_of, known_from and settles_at, for players of the day
--   kind 0 nothing new (then counts is empty), 1 counts is a list of changes, newest first, 2 counts is the totals hash
local totals, changes, state = unpack(KEYS)
local now = ARGV[1]
if now == '' then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
else
  now = tonumber(now)
end
local held = redis.call('HMGET', state, 'epoch', 'sequence', 'as_of', 'known_from', 'origin', 'settles_at',
  'players_as_of', 'players_from', 'players_settle_at')
if not held[1] then
  return {now, {}, 0, {}}
end
if held[1] == ARGV[2] then
  local newer = held[2] - ARGV[3]
  if newer <= 0 then -- less than 0: Redis was rewound, and its leader will begin another epoch
    return {now, held, 0, {}}
  end
  if newer <= redis.call('LLEN', changes) then
    return {now, held, 1, redis.call('LRANGE', changes, 0, newer - 1)}
  end
end
return {now, held, 2, redis.call('HGETALL', totals)}
