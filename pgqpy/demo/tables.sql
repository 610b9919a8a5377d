-- What the demo's consumer keeps: its own balances, and a ledger of what it processed.
--
-- The ledger has no key on ev_id: an event that came twice is to be counted, not refused.
create table account_balance (account bigint primary key, balance bigint not null);
create table branch_balance (branch bigint primary key, balance bigint not null);
create table ledger (
    ev_id bigint not null,
    account bigint not null,
    branch bigint not null,
    delta bigint not null,
    inserted numeric not null,   -- seconds since 1970, when insert_event was called
    processed numeric not null   -- the same clock, when the consumer had its effect
);
create table finished_batch (batch_id bigint primary key, events bigint not null);
