-- How many friendships each user has, so that whoever befriends or parts knows it without counting the user's edges.
-- Kept apart from the users: a growing number there would move the long play log behind it.
CREATE TABLE degrees (
    user_id INTEGER PRIMARY KEY,
    friends INTEGER NOT NULL
) STRICT;

INSERT INTO degrees (user_id, friends)
SELECT user_id, count(*) FROM (
    SELECT low AS user_id FROM edges WHERE state & 1
    UNION ALL
    SELECT high FROM edges WHERE state & 1
) GROUP BY user_id;

-- With more friendships than this a user's plays are pulled. 0: no process has said yet.
ALTER TABLE truth ADD COLUMN fanout_max_friends INTEGER NOT NULL DEFAULT 0;

-- The users whose plays are pulled, and the lengths of their logs: asked for once a second.
CREATE INDEX users_pulled ON users (id, plays) WHERE state & 4;
