-- APPLY: advance friends' cursors by one entry each and count these, for many views of one shard.
--
-- KEYS  n st, then n ec, then n dt, one a view; then the fp bucket of each update
-- ARGV  1 how many updates each view has, one byte each; updates are in the order of their views
--       2 which entry each update is of, one byte each, from 0
--       3.. owner, ordinal in the owner's log, field of the game (number // 64) of each entry. Owners are decimal ids and
--       never Lua numbers, which are exact to 2^53 only
-- Returns one byte an update: 1 applied, 2 duplicate, 3 not a friend, 4 not resident, 5 gap, 6 being built.
-- Keeps I1: a count rises in the same moment as the cursor passes the entry, and a cursor moves to n from n - 1 only.
--       Anything else changes nothing and is told. A view being built gets the owner marked dirty: its builder, who may
--       have read the owner's log before this entry, reads it again.
-- Rows of one view are read together and written together, each once: a command costs more than what it does.

local call, byte, unpack_row, pack_row = redis.call, string.byte, struct.unpack, struct.pack
local sizes, entries, outcomes = ARGV[1], ARGV[2], {}
local n, last = #sizes, 0
local states = call('MGET', unpack(KEYS, 1, n)) -- the guard: most friends of a player have no view
for i = 1, n do
  local state, first = states[i], last + 1
  last = last + byte(sizes, i)
  if not state then
    for update = first, last do outcomes[update] = 4 end
  elseif byte(state) == 66 then -- B
    for update = first, last do
      call('SADD', KEYS[2 * n + i], ARGV[3 + 3 * byte(entries, update)])
      outcomes[update] = 6
    end
  else
    local owners, place_of = {}, {} -- place_of: owner to its place in owners, and so in rows
    for update = first, last do
      local owner = ARGV[3 + 3 * byte(entries, update)]
      if not place_of[owner] then
        owners[#owners + 1] = owner
        place_of[owner] = #owners
      end
    end
    local rows, moved = call('HMGET', KEYS[n + i], unpack(owners)), {}
    for update = first, last do
      local entry, outcome = 3 + 3 * byte(entries, update), 3
      local place = place_of[ARGV[entry]]
      local row = rows[place]
      local version, cursor, seen = 0, 0, 0
      if row then version, cursor, seen = unpack_row('<I8I4B', row) end
      if seen == 0 then
        outcome = 3
      else
        local ordinal = tonumber(ARGV[entry + 1])
        if cursor >= ordinal then
          outcome = 2
        elseif cursor < ordinal - 1 then
          outcome = 5
        else
          rows[place] = pack_row('<I8I4B', version, ordinal, seen)
          moved[place] = true
          call('HINCRBY', KEYS[3 * n + update], ARGV[entry + 2], '1')
          outcome = 1
        end
      end
      outcomes[update] = outcome
    end
    local written = {}
    for place in pairs(moved) do
      written[#written + 1] = owners[place]
      written[#written + 1] = rows[place]
    end
    if #written > 0 then call('HSET', KEYS[n + i], unpack(written)) end
  end
end
return string.char(unpack(outcomes))
