-- VIEW: all that is known of one view, at one moment. Read-only; for audits and tests.
--
-- KEYS  1 st   2 ec   3 pl   4 dt   5..68 the fp buckets 0..63
-- Returns false where there is none, else {token, rows, pull owners, dirty owners, bucket 0, ..., bucket 63}, hashes as
--       flat lists.
-- Keeps everything: it writes nothing.

local state = redis.call('GET', KEYS[1])
if not state then return false end
local reply = {
  state, redis.call('HGETALL', KEYS[2]), redis.call('SMEMBERS', KEYS[3]), redis.call('SMEMBERS', KEYS[4]),
}
for bucket = 0, 63 do reply[5 + bucket] = redis.call('HGETALL', KEYS[5 + bucket]) end
return reply
