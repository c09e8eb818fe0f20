-- Streaming rows that were asked to stop, and hardly ever one: a node looks here
-- for its own every few seconds, however many streams there are. An append
-- changes neither column, so that it stays a heap-only update.
CREATE INDEX streams_cancelled ON rillkeep.streams (id) WHERE cancel AND status = 'streaming';

-- Says that a stream was asked to stop, as the change feed does: the channel is
-- the schema's name. It has no producer and no number, since it is nobody's run.
-- What can't be said is left unsaid: an id that is too long for a notification,
-- or a full queue, must not undo the update.
CREATE FUNCTION rillkeep.announce_cancel() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	message text := pg_catalog.json_build_object('changes', pg_catalog.json_build_array(
		pg_catalog.json_build_object('id', NEW.id, 'seq', NEW.seq, 'epoch', NEW.epoch, 'cancel', true)))::text;
BEGIN
	IF pg_catalog.octet_length(message) < 8000 AND pg_catalog.pg_notification_queue_usage() < 0.5 THEN
		PERFORM pg_catalog.pg_notify(TG_TABLE_SCHEMA, message);
	END IF;
	RETURN NULL;
END $$;

-- Appends and seals set other columns: to them it is nothing.
CREATE TRIGGER announce_cancel AFTER UPDATE OF cancel ON rillkeep.streams
FOR EACH ROW WHEN (NEW.cancel AND NEW.status = 'streaming' AND OLD.cancel IS DISTINCT FROM NEW.cancel)
EXECUTE FUNCTION rillkeep.announce_cancel();
