-- PAGE: the counts of some games in one view. Read-only.
--
-- KEYS  1 st   2 pl   3 ec   4.. the fp bucket of each number asked, in order (a bucket may come twice)
-- ARGV  1 the field of each number (number // 64), packed <I4
-- Returns false where the view is not ready, else {counts packed <I4, owner, cursor, owner, cursor, ...}, where the
--       owners are the pull friends: their plays are not pushed, so the reader compares and catches up.
-- Keeps everything: it writes nothing. One script, so that no count is from another moment than its neighbour.

local state = redis.call('GET', KEYS[1])
if not state or string.byte(state) ~= 82 then return false end -- 82: R

local counts, fields = {}, ARGV[1]
for i = 1, #KEYS - 3 do
  local field = struct.unpack('<I4', fields, 4 * i - 3)
  counts[i] = struct.pack('<I4', redis.call('HGET', KEYS[3 + i], field) or 0)
end

local reply = {table.concat(counts)}
for _, owner in ipairs(redis.call('SMEMBERS', KEYS[2])) do
  local _, cursor = struct.unpack('<I8I4B', redis.call('HGET', KEYS[3], owner))
  reply[#reply + 1] = owner
  reply[#reply + 1] = cursor
end
return reply
