-- From here on the lease was renewed without a gap by the database's clock. A
-- step of that clock is a gap in all leases at once.
ALTER TABLE rillkeep.nodes ADD COLUMN since timestamptz NOT NULL DEFAULT now();
