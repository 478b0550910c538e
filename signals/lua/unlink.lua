-- Drop keys of one shard.
-- KEYS  any
-- Returns how many there were.
return redis.call('UNLINK', unpack(KEYS))
