-- Table: pgq.truncation_0. It is empty; each truncation renames it: see lock_truncation_mark. It is
-- unlogged, so that no publication holds it: a subscriber has it by another name.
do $$ begin if not exists (select from pgq.installation) then
create unlogged table pgq.truncation_0 ();
comment on table pgq.truncation_0 is 'Holds nothing. Its name counts truncations.';
end if; end $$;
