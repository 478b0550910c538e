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
-- Rows of one view are read together and written together: a command costs Redis more than what it does. One row alone
--       is cheaper by HGET.

local call, keys, byte, unpack_row, pack_row = redis.call, KEYS, string.byte, struct.unpack, struct.pack
local sizes, entries, outcomes = ARGV[1], ARGV[2], {}
local n, last = #sizes, 0

-- Counts the entry of an update where the row's cursor stands just before it. Returns the row to be written then.
local function count(update, row)
  local version, cursor, seen = 0, 0, 0
  if row then version, cursor, seen = unpack_row('<I8I4B', row) end
  if seen == 0 then
    outcomes[update] = 3
  else
    local entry = 3 + 3 * byte(entries, update)
    local ordinal = tonumber(ARGV[entry + 1])
    if cursor >= ordinal then
      outcomes[update] = 2
    elseif cursor < ordinal - 1 then
      outcomes[update] = 5
    else
      outcomes[update] = 1
      call('HINCRBY', keys[3 * n + update], ARGV[entry + 2], '1')
      return pack_row('<I8I4B', version, ordinal, seen)
    end
  end
end

local states = call('MGET', unpack(keys, 1, n)) -- the guard: most friends of a player have no view
for i = 1, n do
  local state, first, ec = states[i], last + 1, keys[n + i]
  last = last + byte(sizes, i)
  if not state then
    for update = first, last do outcomes[update] = 4 end
  elseif byte(state) == 66 then -- B
    for update = first, last do
      call('SADD', keys[2 * n + i], ARGV[3 + 3 * byte(entries, update)])
      outcomes[update] = 6
    end
  elseif first == last then
    local owner = ARGV[3 + 3 * byte(entries, first)]
    local row = count(first, call('HGET', ec, owner))
    if row then call('HSET', ec, owner, row) end
  else
    local owners, rows_now, written = {}, {}, {} -- rows_now: of an owner with several entries the row that was read is old
    for update = first, last do owners[update - first + 1] = ARGV[3 + 3 * byte(entries, update)] end
    local rows = call('HMGET', ec, unpack(owners))
    for update = first, last do
      local owner = owners[update - first + 1]
      local row = count(update, rows_now[owner] or rows[update - first + 1])
      if row then
        rows_now[owner] = row
        written[#written + 1] = owner
        written[#written + 1] = row -- of an owner named twice, HSET keeps the last
      end
    end
    if #written > 0 then call('HSET', ec, unpack(written)) end
  end
end
return string.char(unpack(outcomes))
