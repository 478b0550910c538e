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

-- Writes what became of some fields: their counts as text, nil where the count came to 0.
local function write_fields(key, fields, counts)
  local kept, gone = {}, {}
  for i = 1, #fields do
    local field = fields[i]
    local count = counts[field]
    if count then
      kept[#kept + 1] = field
      kept[#kept + 1] = count
    else
      gone[#gone + 1] = field
    end
  end
  write('HSET', key, kept)
  write('HDEL', key, gone)
end

local function count_few(key, fields, step)
  local were, counts = call('HMGET', key, unpack(fields)), {}
  for i = 1, #fields do
    local now = (were[i] or 0) + step
    if now > 0 then counts[fields[i]] = text(now) end
  end
  write_fields(key, fields, counts)
end

local function count_many(key, fields, step)
  local all, counts, gone = call('HGETALL', key), {}, 0
  for i = 1, #all, 2 do counts[all[i]] = all[i + 1] end
  for i = 1, #fields do
    local field = fields[i]
    local now = (counts[field] or 0) + step
    if now > 0 then
      counts[field] = text(now)
    else
      counts[field] = nil
      gone = gone + 1
    end
  end
  if #all / 2 - gone < gone then
    local kept, size = {}, 0
    for i = 1, #all, 2 do
      local count = counts[all[i]]
      if count then
        kept[size + 1], kept[size + 2] = all[i], count
        size = size + 2
      end
    end
    call('DEL', key)
    write('HSET', key, kept)
  else
    write_fields(key, fields, counts)
  end
end

local function count_entries(log, first, last, buckets, key, step)
  local in_bucket = fields_by_bucket(log, first, last)
  for i = 1, #buckets do
    local fields, bucket_key = in_bucket[string.byte(buckets, i)], KEYS[key + i - 1]
    if not fields then
      -- nothing from `first` on
    elseif #fields == 1 and step == 1 then
      call('HINCRBY', bucket_key, fields[1], '1')
    elseif #fields < 8 or 4 * #fields < call('HLEN', bucket_key) and #fields < 4000 then
      count_few(bucket_key, fields, step)
    else
      count_many(bucket_key, fields, step)
    end
  end
end

