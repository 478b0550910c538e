-- What CATCHUP and EDGE share: count entries of a log in, or take them out again.
--
-- log, packed <I4, names no game twice; `first` to `last` are entries of it; `buckets` has the bucket of each fp key, one
-- byte each, and the first of these keys is KEYS[key]; `step` is 1 or -1. A count that comes to 0 leaves.
-- Many entries of one bucket are read and written together: a write is a command of its own in the append-only file.
-- Redis looks for each field in a listpack from its beginning, so where many are asked it gives all, and where few stay
-- they are written anew. Numbers become text here, once each: Redis takes longer over them.

local call = redis.call

local texts = {}
local function text(number)
  local digits = texts[number]
  if not digits then
    digits = string.format('%d', number)
    texts[number] = digits
  end
  return digits
end

-- Lua unpacks fewer than 8,000 values.
local function write(command, key, values)
  for at = 1, #values, 4000 do call(command, key, unpack(values, at, math.min(at + 3999, #values))) end
end

local function fields_by_bucket(log, first, last)
  local in_bucket = {}
  for from = first, last, 200 do
    local count = math.min(200, last - from + 1)
    local numbers = {struct.unpack('<' .. string.rep('I4', count), log, 4 * from - 3)}
    for i = 1, count do
      local number = numbers[i]
      local bucket = number % 64
      local fields = in_bucket[bucket]
      if not fields then
        fields = {}
        in_bucket[bucket] = fields
      end
      fields[#fields + 1] = text((number - bucket) / 64)
    end
  end
  return in_bucket
end

local function count_few(key, fields, step)
  local counts, kept, gone = call('HMGET', key, unpack(fields)), {}, {}
  for i = 1, #fields do
    local now = (counts[i] or 0) + step
    if now > 0 then
      kept[#kept + 1] = fields[i]
      kept[#kept + 1] = text(now)
    else
      gone[#gone + 1] = fields[i]
    end
  end
  write('HSET', key, kept)
  write('HDEL', key, gone)
end

local function count_many(key, fields, step)
  local all, counts = call('HGETALL', key), {}
  for i = 1, #all, 2 do counts[all[i]] = all[i + 1] end
  local kept, gone = {}, {}
  for i = 1, #fields do
    local field = fields[i]
    local now = (counts[field] or 0) + step
    counts[field] = now > 0 and text(now) or nil
    if now > 0 then
      kept[#kept + 1] = field
      kept[#kept + 1] = text(now)
    else
      gone[#gone + 1] = field
    end
  end
  if #all / 2 - #gone < #gone then
    kept, gone = {}, {}
    for i = 1, #all, 2 do
      local field = all[i]
      if counts[field] then
        kept[#kept + 1] = field
        kept[#kept + 1] = counts[field]
      end
    end
    call('DEL', key)
  end
  write('HSET', key, kept)
  write('HDEL', key, gone)
end

local function count_entries(log, first, last, buckets, key, step)
  local in_bucket = fields_by_bucket(log, first, last)
  for i = 1, #buckets do
    local fields, bucket_key = in_bucket[string.byte(buckets, i)], KEYS[key + i - 1]
    if fields then
      local few = #fields < 8 or 4 * #fields < call('HLEN', bucket_key) and #fields < 4000
      if few then
        count_few(bucket_key, fields, step)
      else
        count_many(bucket_key, fields, step)
      end
    end
  end
end

