-- Refuses arrays of events that have not one element an event each.
-- Parameters: those of insert_events; an extra array that is null stands for an array of nulls.
-- Raises: PQ009 arrays of different lengths, or NULL for types or data.
create or replace function pgq.check_arrays(
    i_types text[], i_datas text[], i_extra1s text[], i_extra2s text[], i_extra3s text[],
    i_extra4s text[])
returns void language plpgsql immutable as $$
declare
    v_events constant int := cardinality(i_types);
begin
    if i_types is null or i_datas is null then
        raise exception 'Invalid NULL value' using errcode = 'PQ009',
            hint = 'give an array of types and one of data';
    elsif cardinality(i_datas) <> v_events
            or cardinality(i_extra1s) <> v_events or cardinality(i_extra2s) <> v_events
            or cardinality(i_extra3s) <> v_events or cardinality(i_extra4s) <> v_events then
        raise exception 'the arrays of events differ in length' using errcode = 'PQ009',
            hint = 'one element an event in each array';
    end if;
end $$;
