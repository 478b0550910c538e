-- What CATCHUP and EDGE share: count entries of a log in, or take them out again.
--
-- log, packed <I4, names no game twice; `first` to `last` are entries of it; `buckets` has the bucket of each fp key, one
-- byte each, and the first of these keys is KEYS[key]; `step` is 1 or -1. A count that comes to 0 leaves.
-- Many entries of one bucket are read and written together: a write is a command of its own in the append-only file.

local function count_entries(log, first, last, buckets, key, step)
  local in_bucket = {}
  for i = first, last do
    local number = struct.unpack('<I4', log, 4 * i - 3)
    local bucket = number % 64
    local fields = in_bucket[bucket]
    if not fields then
      fields = {}
      in_bucket[bucket] = fields
    end
    fields[#fields + 1] = string.format('%d', (number - bucket) / 64)
  end
  for i = 1, #buckets do
    local fields = in_bucket[string.byte(buckets, i)]
    if fields then
      local bucket_key = KEYS[key + i - 1]
      for at = 1, #fields, 1000 do -- Lua unpacks fewer than 8,000 values
        local counts = redis.call('HMGET', bucket_key, unpack(fields, at, math.min(at + 999, #fields)))
        local kept, gone = {}, {}
        for j, count in ipairs(counts) do
          local now = (tonumber(count) or 0) + step
          if now > 0 then
            kept[#kept + 1] = fields[at + j - 1]
            kept[#kept + 1] = now
          else
            gone[#gone + 1] = fields[at + j - 1]
          end
        end
        if #kept > 0 then redis.call('HSET', bucket_key, unpack(kept)) end
        if #gone > 0 then redis.call('HDEL', bucket_key, unpack(gone)) end
      end
    end
  end
end

