-- Table: pgq.truncation_0. It is empty; each truncation renames it: see lock_truncation_mark.
do $$ begin if not exists (select from pgq.installation) then
create table pgq.truncation_0 ();
comment on table pgq.truncation_0 is 'Holds nothing. Its name counts truncations.';
end if; end $$;
