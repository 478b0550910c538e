-- EDGE: what a viewer sees of an owner has changed: off, push or pull.
--
-- KEYS  1 st   2 ec   3 pl   4 dt   5.. where it goes off: the fp buckets that the log's games are in, each once
-- ARGV  1 owner   2 the token that stood in st before the truth was read, '' for none   3 version
--       4 state: 0 off, 1 push, 2 pull   5 where it goes off: the owner's log, packed <I4   6 the bucket of each fp key
-- Returns 1 applied, 4 not resident, 6 being built, 7 old version, 8 another token, 9 the cursor stands past the log's
--       end.
-- Keeps I1: going off takes back exactly the entries before the cursor, in the same moment as the row goes off. Keeps
--       I2: going on, or from push to pull and back, leaves the cursor where it is (0 after off). The row of an owner
--       that went off stays for its version, so that an older "on" that comes late is known as old. A view built since
--       has no such rows: it has another token.

local owner, token, version, seen, log, buckets = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6]
local state = redis.call('GET', KEYS[1])
if not state then return 4 end
if string.byte(state) == 66 then -- B; whatever the token: a mark too many costs a second look, one too few a wrong count
  redis.call('SADD', KEYS[4], owner)
  return 6
end
if state ~= token then return 8 end

local row = redis.call('HGET', KEYS[2], owner)
local last, cursor, was = 0, 0, 0
if row then last, cursor, was = struct.unpack('<I8I4B', row) end
if version <= last then return 7 end

if seen == 0 and was ~= 0 then
  if cursor > #log / 4 then return 9 end
  count_entries(log, 1, cursor, buckets, 5, -1)
  cursor = 0
end
redis.call('HSET', KEYS[2], owner, struct.pack('<I8I4B', version, cursor, seen))
if seen == 2 then
  redis.call('SADD', KEYS[3], owner)
elseif was == 2 then
  redis.call('SREM', KEYS[3], owner)
end
return 1
