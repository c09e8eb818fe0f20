-- One row: the highest epoch that a deleted stream had. An id that is used again
-- begins above it, so that no reader and no writer of the stream before takes the
-- new one for it.
CREATE TABLE rillkeep.epochs (
	one   boolean PRIMARY KEY DEFAULT true CHECK (one),
	epoch bigint NOT NULL
);

-- What was deleted until now had hardly more than what is there.
INSERT INTO rillkeep.epochs (epoch) SELECT coalesce(max(epoch), 0) FROM rillkeep.streams;
