-- CATCHUP: apply everything of a part of a friend's log that lies past the cursor.
--
-- KEYS  1 st   2 ec   3 dt   4.. the fp buckets that the part's games are in, each once
-- ARGV  1 owner   2 the part, packed <I4, oldest first   3 the bucket of each fp key, one byte each
--       4 how many entries of the log come before the part   5 the length of the whole log
-- Returns {outcome, cursor}: 1 applied, 2 duplicate (nothing of the part lies past the cursor, or something before the
--       part does), 3 not a friend, 4 not resident, 6 being built, 9 the cursor stands past the log's end. After 1 and 2
--       the caller has more to bring where the cursor is not the length: a long log goes in parts, so that Redis answers
--       others in between.
-- Keeps I1 and I2: counts rise together with the cursor, and it never goes back. It needs no token, since what it is
--       given is true of the owner's log for good; how far the view has it, the cursor knows.

local owner, part, buckets, before, length = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local state = redis.call('GET', KEYS[1])
if not state then return {4} end
if string.byte(state) == 66 then -- B
  redis.call('SADD', KEYS[3], owner)
  return {6}
end
local row = redis.call('HGET', KEYS[2], owner)
if not row then return {3} end
local version, cursor, seen = struct.unpack('<I8I4B', row)
if seen == 0 then return {3} end
if cursor > length then return {9} end
local size = #part / 4
if cursor < before or cursor >= before + size then return {2, cursor} end

count_entries(part, cursor - before + 1, size, buckets, 4, 1)
redis.call('HSET', KEYS[2], owner, struct.pack('<I8I4B', version, before + size, seen))
return {1, before + size}
