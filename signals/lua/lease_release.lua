-- Give a lease up, so that the next holder need not wait for its end.
-- KEYS  1 lease:{name}
-- ARGV  1 "token:holder"
-- Returns 1, or 0 where it was another's already.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
