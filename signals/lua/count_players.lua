-- Counts users in as players of a game on a day.
-- KEYS  1 up:{game:…}:… HyperLogLog of them
-- ARGV  1 seconds until it may go   then users, at most 1,000: unpack has the Lua stack for about 8000
-- Returns how many players it has by now, about (standard error 0.81 %).
-- Keeps: a user counts once, however often and by whomever they are counted in.
if redis.call('PFADD', KEYS[1], unpack(ARGV, 2)) == 1 then
  redis.call('EXPIRE', KEYS[1], ARGV[1], 'NX')
end
return redis.call('PFCOUNT', KEYS[1])
