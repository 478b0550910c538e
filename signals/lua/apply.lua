-- APPLY: advance one friend's cursor by one entry and count it, for many views of one shard.
--
-- KEYS  n st, then n ec, then n fp buckets, then n dt: update i has the i-th of each
-- ARGV  1 which entry each update is of, one byte each, from 0
--       2.. owner, ordinal in the owner's log, field of the game (number // 64) of each entry. Owners are decimal ids and
--       never Lua numbers, which are exact to 2^53 only
-- Returns one byte an update: 1 applied, 2 duplicate, 3 not a friend, 4 not resident, 5 gap, 6 being built.
-- Keeps I1: a count rises in the same moment as the cursor passes the entry, and a cursor moves to n from n - 1 only.
--       Anything else changes nothing and is told. A view being built gets the owner marked dirty: its builder, who may
--       have read the owner's log before this entry, reads it again.

local n = #KEYS / 4
local states = redis.call('MGET', unpack(KEYS, 1, n)) -- the guard: most friends of a player have no view
local entries, outcomes = ARGV[1], {}
for i = 1, n do
  local state, outcome = states[i], 4
  if state then
    local entry = 2 + 3 * string.byte(entries, i)
    local owner = ARGV[entry]
    if string.byte(state) == 66 then -- B
      redis.call('SADD', KEYS[3 * n + i], owner)
      outcome = 6
    else
      local row = redis.call('HGET', KEYS[n + i], owner)
      local version, cursor, seen = 0, 0, 0
      if row then version, cursor, seen = struct.unpack('<I8I4B', row) end
      if seen == 0 then
        outcome = 3
      else
        local ordinal = tonumber(ARGV[entry + 1])
        if cursor >= ordinal then
          outcome = 2
        elseif cursor < ordinal - 1 then
          outcome = 5
        else
          redis.call('HSET', KEYS[n + i], owner, struct.pack('<I8I4B', version, ordinal, seen))
          redis.call('HINCRBY', KEYS[2 * n + i], ARGV[entry + 2], '1')
          outcome = 1
        end
      end
    end
  end
  outcomes[i] = string.char(outcome)
end
return table.concat(outcomes)
