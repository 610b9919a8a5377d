-- Registers a subconsumer under the name consumer.subconsumer, and its consumer if that is new.
-- Names are joined by a dot, so 'a' with 'b.c' and 'a.b' with 'c' are the same name: the one that
-- comes second is refused. A registration that is there is not locked.
-- Returns: 1 new, 0 was registered.
-- Raises: PQ001; PQ005, PQ013 as register_consumer; PQ009 a bad name, or one that another consumer
--   has; PQ020 the consumer is shared, or is a subconsumer itself.
-- Writes: as register_consumer, for the consumer; as add_registration; insert pgq.position.
create or replace function pgq_coop.register_subconsumer(
    i_queue_name text, i_consumer_name text, i_subconsumer_name text)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    c_name constant text := i_consumer_name || '.' || i_subconsumer_name;
    v_queue int;
    p record;
    r record;
begin
    if pgq.find_subconsumer(i_queue_name, i_consumer_name, i_subconsumer_name) is not null then
        return 0;
    end if;
    perform pgq.check_name('subconsumer', i_subconsumer_name, 255);
    perform pgq.check_name('consumer.subconsumer', c_name, 255);
    perform pgq.register_consumer(i_queue_name, i_consumer_name);
    v_queue := (select queue_id from pgq.queue where queue_name = i_queue_name);
    p := pgq.add_registration(v_queue, i_consumer_name, null);
    if p.sub_parent is not null or p.sub_mode = 'shared' then
        perform pgq.raise_wrong_mode(i_queue_name, i_consumer_name, p.sub_mode);
    end if;
    r := pgq.add_registration(v_queue, c_name, p.sub_id);
    if r.is_new then
        perform pgq.move_position(r.sub_id, 0, null, null, null);
    elsif r.sub_parent is distinct from p.sub_id then
        raise exception 'the name % is taken on queue %', c_name, i_queue_name
            using errcode = 'PQ009', detail = 'by another consumer, or another one''s subconsumer',
            hint = 'choose another name for the subconsumer';
    end if;
    return r.is_new::int;
end $$;
comment on function pgq_coop.register_subconsumer is 'Registers a subconsumer: 1 new, 0 already.';
