-- Write events to a partition, if it holds what this publisher wrote last.
-- KEYS  1 ev:{eN} the stream   2 mk:{eN} what its publisher wrote last: truth:publisher:number
-- ARGV  1 what ought to stand   2 what stands afterwards   3 truth id   4.. the events
-- Returns 1, or 0 where something else stands: Redis was rewound, or another publisher took over; nothing changes.
-- Keeps: an entry is in the stream if and only if the number of its call, or a later one, was reached here. Run twice,
--       the second run finds its own number.
local stands = redis.call('GET', KEYS[2])
if stands == ARGV[2] then
  return 1
end
if stands ~= ARGV[1] then
  return 0
end
for i = 4, #ARGV do
  redis.call('XADD', KEYS[1], '*', 'e', ARGV[i], 't', ARGV[3])
end
redis.call('SET', KEYS[2], ARGV[2])
return 1
