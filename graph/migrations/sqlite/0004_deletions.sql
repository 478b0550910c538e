-- Who was deleted, in the order of the commits: every process that checks tokens holds the ids, and asks only for what
-- came after the last one that it knows. AUTOINCREMENT under BEGIN IMMEDIATE, as in the outbox.
CREATE TABLE deletions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL
) STRICT;

INSERT INTO deletions (user_id) SELECT id FROM users WHERE state & 2 ORDER BY id;

-- Those who are hidden (1) or deleted (2), so that finding them does not read everybody.
CREATE INDEX users_invisible ON users (state) WHERE state & 3;
