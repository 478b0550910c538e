-- The published lengths of the logs of pulled users. Writes nothing.
-- KEYS  1 pulled_logs:{pulled_logs}
-- ARGV  1 the content that the reader has, '' for none
-- Returns {now in Redis's ms, as_of or false where nothing is published, content, lengths or false where the reader has them}
local held = redis.call('HMGET', KEYS[1], 'as_of', 'content')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local lengths = false
if held[1] and held[2] ~= ARGV[1] then
  lengths = redis.call('HGET', KEYS[1], 'lengths')
end
return {now, held[1], held[2], lengths}
