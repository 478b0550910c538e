-- A batch of acknowledgements is in this shard: everything that followed from its events here.
-- KEYS  1 mk:{t} hash: truth; batch, every batch up to which is in; and one field each for later ones that are
--       2 wi:{t}:name the witness of the process that stamped the batch
-- ARGV  1 truth id   2 the batch   3.. the runs of scripts on this shard up to the stamp
-- Returns 1, or 0 where a run is missing (Redis was rewound since) or the marker is of another truth, or gone.
-- Keeps: `batch` moves over a number only when that number is settled, by the next in line, in the history of this very
--       shard. Run twice, the second run finds the batch settled.
local marker, witness = KEYS[1], KEYS[2]
if redis.call('HGET', marker, 'truth') ~= ARGV[1] then
  return 0
end
local batch = tonumber(redis.call('HGET', marker, 'batch'))
if redis.call('HEXISTS', marker, ARGV[2]) == 1 or (batch and tonumber(ARGV[2]) <= batch) then
  return 1
end
for from = 3, #ARGV, 1000 do -- unpack has the Lua stack for about 8000
  local found = redis.call('SMISMEMBER', witness, unpack(ARGV, from, math.min(from + 999, #ARGV)))
  for i = 1, #found do
    if found[i] == 0 then
      return 0
    end
  end
end
for from = 3, #ARGV, 1000 do
  redis.call('SREM', witness, unpack(ARGV, from, math.min(from + 999, #ARGV)))
end
redis.call('HSET', marker, ARGV[2], '')
if batch then -- without one the shard is being emptied, and who does that will say from where it counts
  local settled = batch
  while redis.call('HDEL', marker, string.format('%.0f', settled + 1)) == 1 do
    settled = settled + 1
  end
  if settled > batch then
    redis.call('HSET', marker, 'batch', string.format('%.0f', settled))
  end
end
return 1
