-- One row a run of a node: its lease on the file, by the machine's clock.
CREATE TABLE nodes (
	name         TEXT NOT NULL,                   -- with incarnation what owner tokens begin with
	incarnation  TEXT NOT NULL,
	gossip_addr  TEXT NOT NULL DEFAULT '',
	http_addr    TEXT NOT NULL DEFAULT '',
	heartbeat_at INTEGER NOT NULL,                -- microseconds since 1970, as the next two
	expires_at   INTEGER NOT NULL,
	since        INTEGER NOT NULL,                -- from here on it was renewed without a gap; a step of the clock is one
	PRIMARY KEY (name, incarnation)
) STRICT, WITHOUT ROWID;

-- Serves who looks for the owners of streaming rows. An append changes nothing
-- in it, nor in the next two.
CREATE INDEX streams_owner ON streams (coalesce(host, '')) WHERE status = 'streaming';

-- Serves who looks for streams that ended long ago.
CREATE INDEX streams_ended ON streams (ended_at) WHERE ended_at IS NOT NULL;

-- Streaming rows that were asked to stop, and hardly ever one.
CREATE INDEX streams_cancelled ON streams (id) WHERE cancel AND status = 'streaming';

-- One row: the highest epoch that a deleted stream had. An id that is used again
-- begins above it.
CREATE TABLE epochs (
	one   INTEGER PRIMARY KEY CHECK (one = 1),
	epoch INTEGER NOT NULL
) STRICT;
INSERT INTO epochs SELECT 1, coalesce(max(epoch), 0) FROM streams;

-- What nodes tell each other, in messages of the change feed, for some seconds.
CREATE TABLE news (
	n       INTEGER PRIMARY KEY AUTOINCREMENT,    -- without a gap: who finds one has missed something
	at      INTEGER NOT NULL,
	message TEXT NOT NULL
) STRICT;

-- Says that a stream was asked to stop, by a node or by plain SQL. The message has
-- no producer and no number, since it is nobody's run. Its time is by a function
-- that older tools have as well.
CREATE TRIGGER announce_cancel AFTER UPDATE OF cancel ON streams
WHEN NEW.cancel AND NEW.status = 'streaming' AND NOT OLD.cancel
BEGIN
	INSERT INTO news (at, message) VALUES (
		CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER),
		json_object('changes', json_array(json_object('id', NEW.id, 'seq', NEW.seq, 'epoch', NEW.epoch, 'cancel', json('true')))));
END;
