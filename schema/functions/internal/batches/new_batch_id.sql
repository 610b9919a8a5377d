-- The id of a new batch: 43 bits of a sequence, then 20 random ones.
--
-- A standby that becomes the primary may lack the sequence's last values, and so may a server that
-- crashed before they were on disk. Behind a pooler, clients stay connected meanwhile. Such a
-- client would finish the batch of another one that got the same value again.
-- Writes: nextval.
create or replace function pgq.new_batch_id() returns bigint language sql as $$
    select (nextval('pgq.batch_id_seq') << 20) + floor(random() * 1048576)::bigint
$$;
