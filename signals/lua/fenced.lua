-- What stands before a script that a fence runs (signals/fence.py): the shard is of the caller's truth, and the run
-- leaves a trace.
-- KEYS  those of the script, then mk:{t} the shard's marker, then wi:{t}:name the witness of the calling process
-- ARGV  those of the script, then the caller's truth id, then the number of this run, '' to leave no trace
-- Raises OTHERTRUTH where the marker is of another truth: what the caller knows means something else here. No marker is
--       let pass: a shard without one is emptied before it gets one.
-- Keeps: the number is in the witness if and only if what the script did is in this Redis, since both are one step.
local fence_number, fence_truth = table.remove(ARGV), table.remove(ARGV)
local fence_witness, fence_marker = table.remove(KEYS), table.remove(KEYS)
local fence_held = redis.call('HGET', fence_marker, 'truth')
if fence_held and fence_held ~= fence_truth then
  return redis.error_reply('OTHERTRUTH this shard holds what follows from another truth')
end
if fence_number ~= '' then
  redis.call('SADD', fence_witness, fence_number)
  redis.call('EXPIRE', fence_witness, 3600) -- a process that died cleans up nothing
end

