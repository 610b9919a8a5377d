-- A token for a claim. The random bits tell it from one that was given before the server crashed:
-- a sequence may give a number again that no durable transaction used.
-- Returns: more than 0.
-- Writes: a number of the sequence.
create or replace function pgq.new_token() returns bigint language sql as $$
    select nextval('pgq.run_no_seq') << 16 | (random() * 65535)::int
$$;
