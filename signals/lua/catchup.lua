-- CATCHUP: apply everything of a friend's log that lies past the cursor.
--
-- KEYS  1 st   2 ec   3 dt   4.. the fp buckets that the log's games are in, each once
-- ARGV  1 owner   2 the owner's log, packed <I4, oldest first   3 the bucket of each fp key, one byte each
-- Returns 1 applied, 2 duplicate (nothing lies past the cursor), 3 not a friend, 4 not resident, 6 being built,
--       9 the cursor stands past the log's end.
-- Keeps I1 and I2: counts rise together with the cursor, and it never goes back. It needs no token, since what it is
--       given is true of the owner's log for good; how far the view has it, the cursor knows.

local owner, log, buckets = ARGV[1], ARGV[2], ARGV[3]
local state = redis.call('GET', KEYS[1])
if not state then return 4 end
if string.byte(state) == 66 then -- B
  redis.call('SADD', KEYS[3], owner)
  return 6
end
local row = redis.call('HGET', KEYS[2], owner)
if not row then return 3 end
local version, cursor, seen = struct.unpack('<I8I4B', row)
if seen == 0 then return 3 end
local length = #log / 4
if cursor > length then return 9 end
if cursor == length then return 2 end

count_entries(log, cursor + 1, length, buckets, 4, 1)
redis.call('HSET', KEYS[2], owner, struct.pack('<I8I4B', version, length, seen))
return 1
