-- Put a shard's marker where it belongs after a rewind, by compare and set.
-- KEYS  1 mk:{t} (settle.lua says what it holds)   2 wi:{t}:name the witness of who emptied the shard
-- ARGV  1, 2 truth id and batch that were found there, '' for none
--       3, 4 truth id and batch to stand there; '' for the batch while the shard is being emptied
--       5.. the runs of scripts that emptied the shard
-- Returns 1, or 0 where something else stands there by now, or a run is missing: Redis was rewound to a moment when the
--       shard was being emptied just as now, and holds what was dropped since. Then nothing changes.
-- Keeps: what was settled beyond the new batch still counts, unless the shard is emptied.
local marker = KEYS[1]
local truth, batch = redis.call('HGET', marker, 'truth') or '', redis.call('HGET', marker, 'batch') or ''
if truth == ARGV[3] and batch == ARGV[4] then
  return 1 -- this very call, whose reply was lost
end
if truth ~= ARGV[1] or batch ~= ARGV[2] then
  return 0
end
for from = 5, #ARGV, 1000 do -- as in settle.lua
  for _, found in ipairs(redis.call('SMISMEMBER', KEYS[2], unpack(ARGV, from, math.min(from + 999, #ARGV)))) do
    if found == 0 then
      return 0
    end
  end
end
redis.call('DEL', KEYS[2])
if ARGV[4] == '' then
  redis.call('DEL', marker)
  redis.call('HSET', marker, 'truth', ARGV[3])
  return 1
end
local settled = tonumber(ARGV[4])
for _, field in ipairs(redis.call('HKEYS', marker)) do
  local number = tonumber(field)
  if number and number <= settled then
    redis.call('HDEL', marker, field)
  end
end
while redis.call('HDEL', marker, string.format('%.0f', settled + 1)) == 1 do
  settled = settled + 1
end
redis.call('HSET', marker, 'truth', ARGV[3], 'batch', string.format('%.0f', settled))
return 1
