-- One row a run of a node: its lease on these tables, by the database's clock.
CREATE TABLE rillkeep.nodes (
	name         text COLLATE "C" NOT NULL,       -- with incarnation what owner tokens begin with
	incarnation  text COLLATE "C" NOT NULL,
	gossip_addr  text NOT NULL DEFAULT '',
	http_addr    text NOT NULL DEFAULT '',
	heartbeat_at timestamptz NOT NULL DEFAULT now(),
	expires_at   timestamptz NOT NULL,
	PRIMARY KEY (name, incarnation)
) WITH (fillfactor = 50);

-- Serves who looks for the owners of streaming rows. An append changes nothing
-- in it, nor in the next one.
CREATE INDEX streams_owner ON rillkeep.streams (coalesce(host, '')) WHERE status = 'streaming';

-- Serves who looks for streams that ended long ago.
CREATE INDEX streams_ended ON rillkeep.streams (ended_at) WHERE ended_at IS NOT NULL;
