-- One row a stream. An append changes seq and updated_at only, which are in no
-- index, and the pages keep room, so that it is a heap-only update.
CREATE TABLE rillkeep.streams (
	id         text COLLATE "C" PRIMARY KEY,
	body       text NOT NULL DEFAULT '',          -- the whole text, once sealed
	marks      bigint[] NOT NULL DEFAULT '{}',    -- offset of every 32768th character of body but the first
	seq        bigint NOT NULL DEFAULT 0,         -- length, UTF-16 code units
	status     text NOT NULL DEFAULT 'pending',
	host       text COLLATE "C",                  -- owner token, node/incarnation/epoch
	epoch      bigint NOT NULL DEFAULT 0,
	cancel     boolean NOT NULL DEFAULT false,    -- anybody may set it
	error      text,
	producer   text,
	meta       json,                              -- not jsonb: kept byte for byte, and \u0000 is no error
	created_at timestamptz NOT NULL DEFAULT now(),
	updated_at timestamptz NOT NULL DEFAULT now(),
	ended_at   timestamptz
) WITH (fillfactor = 80);

-- Serves lists of every status but complete, and who looks for streaming rows.
CREATE INDEX streams_unfinished ON rillkeep.streams (status, id) WHERE status <> 'complete';

-- One row a checkpoint, until the seal folds them. The key is what the name
-- <stream>:<seq> would be, and the order in which a text is read.
CREATE TABLE rillkeep.chunks (
	stream_id text COLLATE "C" NOT NULL,
	seq       bigint NOT NULL,                    -- offset at which text ends
	text      text NOT NULL,
	PRIMARY KEY (stream_id, seq)
);

-- Measured on responses of 20 to 200 KB, lz4 costs a half to a third of pglz's
-- time at about its size.
DO $$ BEGIN
	IF EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
		EXECUTE 'ALTER TABLE rillkeep.streams ALTER COLUMN body SET COMPRESSION lz4';
		EXECUTE 'ALTER TABLE rillkeep.chunks ALTER COLUMN text SET COMPRESSION lz4';
	END IF;
END $$;
