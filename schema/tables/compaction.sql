-- Table: pgq.compaction_0. It holds nothing; each compaction renames it: see lock_for_compaction.
do $$ begin if not exists (select from pgq.installation) then
create table pgq.compaction_0 ();
comment on table pgq.compaction_0 is 'Holds nothing. Its name counts compactions.';
end if; end $$;
