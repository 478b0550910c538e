-- A command that only reads, as a script, so that a fence can run it.
-- KEYS  1 what it reads
-- ARGV  1 the command, then what follows its key
-- Returns its reply. Keeps everything.
return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))
