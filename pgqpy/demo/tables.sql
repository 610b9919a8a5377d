-- The tables of the demo's consumer: its balances, and a ledger of the events it processed.
--
-- The ledger has no unique key: an event that is processed twice must be counted, not refused.
create table account_balance (account bigint primary key, balance bigint not null);
create table branch_balance (branch bigint primary key, balance bigint not null);
create table ledger (
    ev_id bigint not null,
    account bigint not null,
    branch bigint not null,
    delta bigint not null,
    inserted numeric not null,   -- Unix time of the call of insert_event
    processed numeric not null   -- Unix time, by the same clock, of the consumer's write
);
create table finished_batch (batch_id bigint primary key, events bigint not null);
