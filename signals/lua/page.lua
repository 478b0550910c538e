-- PAGE: the counts of some games in one view. Read-only.
--
-- KEYS  1 st   2 pl   3 ec   4.. the fp bucket of each number asked, in order (a bucket may come twice)
-- ARGV  1 the field of each number (number // 64), as text, parted by commas: a field that is a Lua number costs Redis
--       half as much again as the look-up
-- Returns false where the view is not ready, else {counts packed <I4, owner, cursor, owner, cursor, ...}, where the
--       owners are the pull friends: their plays are not pushed, so the reader compares and catches up.
-- Keeps everything: it writes nothing. One script, so that no count is from another moment than its neighbour.

local call, keys = redis.call, KEYS -- locals are found faster
local state = call('GET', keys[1])
if not state or string.byte(state) ~= 82 then return false end -- 82: R

local counts, i = {}, 0
for field in string.gmatch(ARGV[1], '%d+') do
  i = i + 1
  counts[i] = call('HGET', keys[3 + i], field) or 0
end

local reply = {struct.pack('<' .. string.rep('I4', i), unpack(counts))} -- fewer than 8,000: Lua unpacks no more
for _, owner in ipairs(call('SMEMBERS', keys[2])) do
  local _, cursor = struct.unpack('<I8I4B', call('HGET', keys[3], owner))
  reply[#reply + 1] = owner
  reply[#reply + 1] = cursor
end
return reply
