-- The truth: users with their play logs, edges between users, the game catalogue, and the outbox.
-- Ids are 1..2^63-1. What is packed into one integer is packed as graph/visibility.py says: version * 8 + flags.

-- One row: who this truth is, and its two counters. `last_number` is the greatest game number given so far.
CREATE TABLE truth (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    id TEXT NOT NULL,
    catalogue_version INTEGER NOT NULL,
    last_number INTEGER NOT NULL
) STRICT;

INSERT INTO truth (only_row, id, catalogue_version, last_number) VALUES (1, lower(hex(randomblob(16))), 0, 0);

-- `numbers` is the play log: the numbers of the games, 32 bits each, little-endian, oldest first. `plays` of them are
-- used; zeros follow, so that most appends keep the row's size and SQLite rewrites only the page that changed.
CREATE TABLE users (
    id INTEGER PRIMARY KEY CHECK (id > 0),
    state INTEGER NOT NULL DEFAULT 0,
    plays INTEGER NOT NULL DEFAULT 0,
    name TEXT,
    numbers BLOB NOT NULL DEFAULT x''
) STRICT;

-- When each entry of a log was played first, apart from the logs, so that reading many logs reads few pages.
CREATE TABLE play_times (
    user_id INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    played_at_ms INTEGER NOT NULL,
    PRIMARY KEY (user_id, ordinal)
) STRICT, WITHOUT ROWID;

-- An edge stands once, lower id first, and stays when it is off: its version must never begin again.
CREATE TABLE edges (
    low INTEGER NOT NULL,
    high INTEGER NOT NULL,
    state INTEGER NOT NULL,
    PRIMARY KEY (low, high),
    CHECK (low < high)
) STRICT, WITHOUT ROWID;

CREATE INDEX edges_by_high ON edges (high, low, state);

CREATE TABLE games (
    id INTEGER PRIMARY KEY CHECK (id > 0),
    number INTEGER NOT NULL UNIQUE CHECK (number BETWEEN 1 AND 4294967295),
    name TEXT NOT NULL,
    image_url TEXT,
    version INTEGER NOT NULL
) STRICT;

CREATE INDEX games_by_version ON games (version);

-- AUTOINCREMENT under BEGIN IMMEDIATE: ids are in the order of the commits and never come again.
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    user_id INTEGER NOT NULL,
    other_id INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    number INTEGER NOT NULL,
    published_at_ms INTEGER
) STRICT;

CREATE INDEX outbox_waiting ON outbox (id) WHERE published_at_ms IS NULL;
