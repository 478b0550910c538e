// The truth in Neo4j: users with their play logs, edges between users, the game catalogue, and the outbox. All labels,
// names and the relationship's type are Headcount's own, so that nothing else in the database is met.
// Every statement can be run again: two processes may open at once, and one may die in between.

// HeadcountUser: id, state (packed as graph/visibility.py says), name, plays (the numbers of the log, oldest first),
// times (Unix milliseconds), friends (how many friendships), deletion (its number, of a deleted one).
CREATE CONSTRAINT headcount_user_id IF NOT EXISTS FOR (u:HeadcountUser) REQUIRE u.id IS UNIQUE;
CREATE INDEX headcount_user_deletion IF NOT EXISTS FOR (u:HeadcountUser) ON (u.deletion);

// HeadcountGame: id, number, name, image, version (of the catalogue, when it last changed).
CREATE CONSTRAINT headcount_game_id IF NOT EXISTS FOR (g:HeadcountGame) REQUIRE g.id IS UNIQUE;
CREATE CONSTRAINT headcount_game_number IF NOT EXISTS FOR (g:HeadcountGame) REQUIRE g.number IS UNIQUE;
CREATE INDEX headcount_game_version IF NOT EXISTS FOR (g:HeadcountGame) ON (g.version);

// HeadcountOutbox: id, kind, user, other, ordinal, number, published (ms), batch, acknowledged (ms). Those that wait to
// be published are HeadcountWaiting too, those published and not acknowledged HeadcountPublished.
CREATE CONSTRAINT headcount_outbox_id IF NOT EXISTS FOR (o:HeadcountOutbox) REQUIRE o.id IS UNIQUE;
CREATE INDEX headcount_outbox_batch IF NOT EXISTS FOR (o:HeadcountOutbox) ON (o.batch);
CREATE INDEX headcount_waiting_id IF NOT EXISTS FOR (o:HeadcountWaiting) ON (o.id);

// HeadcountCounter: one a name, locked before it is read. "games" counts numbers and versions, "deletions" deletions,
// "batches" acknowledgements.
CREATE CONSTRAINT headcount_counter_name IF NOT EXISTS FOR (c:HeadcountCounter) REQUIRE c.name IS UNIQUE;

// HeadcountWriter: one a process that writes, with the turn of its last transaction.
CREATE CONSTRAINT headcount_writer_id IF NOT EXISTS FOR (w:HeadcountWriter) REQUIRE w.id IS UNIQUE;

// HeadcountTruth: one node; id of this truth, version of its schema, the limit of pushed friends.
CREATE CONSTRAINT headcount_truth_only IF NOT EXISTS FOR (t:HeadcountTruth) REQUIRE t.only IS UNIQUE;

CALL db.awaitIndexes(60);

MERGE (t:HeadcountTruth {only: 1}) ON CREATE SET t.id = $truth;
UNWIND ["games", "deletions", "batches"] AS name MERGE (c:HeadcountCounter {name: name}) ON CREATE SET c.last = 0;
