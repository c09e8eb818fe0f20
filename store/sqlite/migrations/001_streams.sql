CREATE TABLE streams (
	id         TEXT PRIMARY KEY NOT NULL,
	body       TEXT NOT NULL DEFAULT '',          -- the whole text, once sealed
	marks      TEXT NOT NULL DEFAULT '[]',        -- offset of every 32768th character of body but the first
	seq        INTEGER NOT NULL DEFAULT 0,        -- length, UTF-16 code units
	status     TEXT NOT NULL DEFAULT 'pending',
	host       TEXT,                              -- owner token, node/incarnation/epoch
	epoch      INTEGER NOT NULL DEFAULT 0,
	cancel     INTEGER NOT NULL DEFAULT 0,
	error      TEXT,
	producer   TEXT,
	meta       TEXT,
	created_at INTEGER NOT NULL,                  -- microseconds since 1970, as the next two
	updated_at INTEGER NOT NULL,
	ended_at   INTEGER
) STRICT;

-- Serves lists of every status but complete, and who looks for streaming rows.
CREATE INDEX streams_unfinished ON streams (status, id) WHERE status <> 'complete';

-- One row a checkpoint, until the seal folds them.
CREATE TABLE chunks (
	stream_id TEXT NOT NULL,
	seq       INTEGER NOT NULL,                   -- offset at which text ends
	text      TEXT NOT NULL,
	PRIMARY KEY (stream_id, seq)
) STRICT;
