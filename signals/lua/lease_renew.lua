-- Hold a lease for another ttl.
-- KEYS  1 lease:{name}
-- ARGV  1 "token:holder"   2 ttl, ms
-- Returns 1, or 0 where this holder's term is over; it never takes the lease back.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
