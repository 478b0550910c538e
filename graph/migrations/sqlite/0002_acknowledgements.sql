-- Rows of the outbox are kept until what followed from them is acknowledged, and for ten minutes more, so that they can
-- be told again when Redis turns out to have forgotten what it was told.

-- `acknowledged_batch` is the number of the last batch of acknowledgements, `purged_batch` the greatest of which a row
-- has been dropped: what came after an older one can no longer be told.
ALTER TABLE truth ADD COLUMN acknowledged_batch INTEGER NOT NULL DEFAULT 0;
ALTER TABLE truth ADD COLUMN purged_batch INTEGER NOT NULL DEFAULT 0;

ALTER TABLE outbox ADD COLUMN acknowledged_batch INTEGER;
ALTER TABLE outbox ADD COLUMN acknowledged_at_ms INTEGER;

-- Neither costs anything where a row is written, and both grow at their end.
CREATE INDEX outbox_unacknowledged ON outbox (id) WHERE published_at_ms IS NOT NULL AND acknowledged_batch IS NULL;
CREATE INDEX outbox_by_batch ON outbox (acknowledged_batch) WHERE acknowledged_batch IS NOT NULL;
