-- Checks and normalises a filter, which says what events a subscription, or a reader of ticks,
-- takes. It is an object of lists: {"types": ["order.*", "invoice"], "extra1": ["eu", "us"]}. Each
-- list is a condition: the event's field is one of these values. An event passes if it meets all
-- conditions. A type that ends with * is a prefix. A null field meets no condition. In the setting
-- `filter` of a Python consumer, the key of the types is "type".
-- Returns: the filter with its values in order, each once; null if every event passes, as with the
--   type *.
-- Raises: PQ009 another condition; a condition that is no list of texts, or an empty one; more than
--   1,000 values; one longer than 1,000 characters; a * that is not at the end of a type.
create or replace function pgq.check_filter(i_filter jsonb)
returns jsonb language plpgsql immutable as $$
declare
    c_known constant text[] := array['types', 'extra1', 'extra2', 'extra3', 'extra4'];
    c_limit constant int := 1000;  -- of values, and of the characters of one
    v_filter jsonb := '{}';
    v_key text;
    v_list jsonb;
    v_values text[];
    v_wrong text;
    v_hint text;
begin
    if jsonb_typeof(i_filter) <> 'object' then
        raise exception 'a filter is a JSON object, not %', left(i_filter::text, 100)
            using errcode = 'PQ009', hint = 'such as {"types": ["order.*"], "extra1": ["eu"]}';
    end if;
    for v_key, v_list in select * from jsonb_each(i_filter) loop
        v_values := null;
        if jsonb_typeof(v_list) = 'array' then
            select coalesce(array_agg(distinct (value #>> '{}') collate "C"), '{}') into v_values
              from jsonb_array_elements(v_list) value
            having bool_and(jsonb_typeof(value) = 'string') is not false;
        end if;
        select value into v_wrong from unnest(v_values) value
         where char_length(value) > c_limit
            or v_key = 'types' and strpos(value, '*') not in (0, char_length(value)) limit 1;
        v_hint := case
            when v_key <> all (c_known) then 'conditions are ' || array_to_string(c_known, ', ')
            when v_values is null then 'write a list of texts, such as ["a", "b"]'
            when v_values = '{}' then 'no event would pass: leave the condition out to take all'
            when cardinality(v_values) > c_limit then format('%s values are too many, %s are the '
                'limit', cardinality(v_values), c_limit)
            when char_length(v_wrong) > c_limit then format('a value of %s characters is too long, '
                '%s are the limit', char_length(v_wrong), c_limit)
            when v_wrong is not null then format('a * may only end a type, not as in "%s"', v_wrong)
        end;
        if v_hint is not null then
            raise exception 'the filter''s condition "%" is wrong', left(v_key, 100)
                using errcode = 'PQ009', hint = v_hint;
        elsif v_key <> 'types' or '*' <> all (v_values) then
            v_filter := v_filter || jsonb_build_object(v_key, v_values);
        end if;
    end loop;
    return nullif(v_filter, '{}');
end $$;
