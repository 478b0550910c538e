-- The lengths of the logs of all pulled users are published.
-- KEYS  1 lease:{pulled_logs}   2 pulled_logs:{pulled_logs} hash  as_of, content, lengths
-- ARGV  1 the publisher's claim on the lease   2 as_of: Redis's ms before the truth was read
--       3 content: a text that is another one whenever the lengths are   4 lengths: (owner <I8, length <I4)*
-- Returns 1 published, 0 the lease is not held by this claim.
-- Keeps: what stands is what one read of the truth said. One that comes late stands with its own as_of, and readers who
-- know better keep what they have.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[2], 'as_of', ARGV[2], 'content', ARGV[3], 'lengths', ARGV[4])
return 1
