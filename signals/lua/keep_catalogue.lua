-- Keep a copy of the catalogue.
-- KEYS  1 cg:{catalogue} hash: truth, version, games (packed by who writes them)
-- ARGV  1 truth id   2 version   3 games
-- Returns 1, or 0 where the copy is as new already.
-- Keeps: within a truth the copy's version only grows.
local held = redis.call('HMGET', KEYS[1], 'truth', 'version')
if held[1] == ARGV[1] and tonumber(held[2]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('HSET', KEYS[1], 'truth', ARGV[1], 'version', ARGV[2], 'games', ARGV[3])
return 1
