-- The hash of a constant and the name of the encoding, by the function that spreads keys over
-- lanes. It differs where keys would be in other lanes: on another platform, or in another
-- encoding.
create or replace function pgq.key_hash()
returns bigint language sql stable as $$
    select hashtextextended('pgq ' || getdatabaseencoding() collate "C", 0)
$$;
