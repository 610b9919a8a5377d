-- State, version 11: how many events a stage holds, so that a reader that works side by side can share them out.
do $migration$
begin
    if (select version from pgq.installation) >= 11 then
        return;
    end if;

    alter table pgq.stage add stage_events bigint;  -- about; known once it is committed

    update pgq.installation set version = 11;
end
$migration$;
