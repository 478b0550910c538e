-- Trims one partition's stream to what may still be needed, and forgets consumers of processes that ended.
--
-- KEYS[1]  the stream
-- ARGV[1]  the consumer group
-- ARGV[2]  milliseconds after which a consumer that asked for nothing is forgotten
-- ARGV[3]  a consumer that leaves and is forgotten at once, or ''
-- Returns  {entries trimmed, consumers forgotten}; {0, 0} where there is no such stream or group
--
-- Keeps: every entry that is pending or was never delivered stays. XACK deletes nothing and XTRIM does not look at the
-- pending list, so the oldest pending entry, or else the last delivered one, is where the stream begins afterwards.
-- Deleting a consumer drops its pending entries, so only one that has none is deleted; in one script, since it may be
-- given an entry between a look and a deletion.

local stream, group = KEYS[1], ARGV[1]
if redis.call('EXISTS', stream) == 0 then
  return {0, 0}
end

local last_delivered
for _, fields in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
  local info = {}
  for i = 1, #fields, 2 do
    info[fields[i]] = fields[i + 1]
  end
  if info['name'] == group then
    last_delivered = info['last-delivered-id']
  end
end
if not last_delivered then
  return {0, 0}
end

local pending = redis.call('XPENDING', stream, group)
local oldest_needed = pending[1] > 0 and pending[2] or last_delivered
local trimmed = redis.call('XTRIM', stream, 'MINID', '=', oldest_needed)

local forgotten = 0
for _, fields in ipairs(redis.call('XINFO', 'CONSUMERS', stream, group)) do
  local info = {}
  for i = 1, #fields, 2 do
    info[fields[i]] = fields[i + 1]
  end
  if info['pending'] == 0 and (info['idle'] > tonumber(ARGV[2]) or info['name'] == ARGV[3]) then
    redis.call('XGROUP', 'DELCONSUMER', stream, group, info['name'])
    forgotten = forgotten + 1
  end
end
return {trimmed, forgotten}
