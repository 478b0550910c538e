-- An import tells of a log that it lets grow batch after batch by one row that waits: the older one has to be found.
-- Rows that have to be told once more (a rewind) are marked, and stay as they are.
ALTER TABLE outbox ADD COLUMN taken_back INTEGER;

CREATE INDEX outbox_waiting_logs ON outbox (user_id)
    WHERE kind = 'log' AND published_at_ms IS NULL AND acknowledged_batch IS NULL AND taken_back IS NULL;
