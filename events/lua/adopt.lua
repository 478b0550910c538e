-- A publisher takes a partition over. From here on no other one's append passes.
-- KEYS  1 ev:{eN} the stream   2 ef:{eN} failures   3 mk:{eN} what its publisher wrote last: truth:publisher:number
-- ARGV  1 truth id   2 what stands afterwards, '' to take over only from another truth
-- Returns 1 where the stream was of another truth, or nobody's, and is emptied; else 0.
-- Keeps: no event of another truth is delivered. What was nobody's may be one; whoever takes over publishes everything
--       that was not acknowledged again.
local stands = redis.call('GET', KEYS[3])
local emptied = 0
if not stands or string.match(stands, '^[^:]*') ~= ARGV[1] then
  redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3])
  emptied = 1
end
if ARGV[2] ~= '' then
  redis.call('SET', KEYS[3], ARGV[2])
elseif emptied == 1 then
  redis.call('SET', KEYS[3], ARGV[1] .. ':nobody:0')
end
return emptied
