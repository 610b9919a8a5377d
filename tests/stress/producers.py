"""Producers: transactions that are small, large, long, rolled back or prepared."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import psycopg

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

KEYS = 12
PRODUCERS = 3
KILLERS = 3  # of each producer
SIZES = (1, 1, 1, 2, 5, 30, 200)  # events of a transaction


def connect(dsn: str) -> psycopg.Connection[Any]:
    """Connect, as soon as the server lets one in."""
    for _ in range(600):
        try:
            return psycopg.connect(dsn, autocommit=True)
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise TimeoutError(dsn)


def produce(dsn: str, number: int, seed: int, stop: Event) -> None:
    """Insert events whose numbers count up within their keys, until told to stop."""
    dice = random.Random(seed * 100 + number)
    keys = [f"k{key}" for key in range(number, KEYS, PRODUCERS)]
    killers = KILLERS
    while not stop.is_set():
        try:
            with connect(dsn) as connection:
                finish_prepared(connection, keys[0])  # from before the server was killed
                while not stop.is_set():
                    killers -= _transaction(connection, dice, keys, killers)
                    time.sleep(dice.expovariate(1 / 0.03))
        except psycopg.OperationalError:  # the server was killed
            continue


def _transaction(
    connection: psycopg.Connection[Any], dice: random.Random, keys: list[str], killers: int
) -> int:
    """Insert events in one transaction; return how many killers were committed."""
    query = "select key, max(n) from sent where key = any (%s) group by key"
    numbers = dict.fromkeys(keys, 0) | dict(connection.execute(query, [keys]).fetchall())
    used = 0
    end = dice.choices(("commit", "rollback", "prepare"), (80, 15, 5))[0]
    connection.execute("begin")
    for _ in range(dice.choice(SIZES)):
        key = dice.choice(keys)
        numbers[key] += 1
        luck = dice.random()
        kind = "bad" if luck < 0.004 else "slow" if luck < 0.005 else "good"
        if used < killers and dice.random() < 0.004:
            kind, used = "killer", used + 1
        insert = "select pgq.insert_event('q', %s, %s, %s, null, null, null)"
        row = connection.execute(insert, [kind, str(numbers[key]), key]).fetchone()
        values = [row and row[0], key, numbers[key], kind]
        connection.execute("insert into sent values (%s, %s, %s, %s)", values)
    if dice.random() < 0.06:
        time.sleep(dice.uniform(0.3, 1.5))
    if end == "prepare":
        connection.execute(f"prepare transaction '{keys[0]}'")
        time.sleep(dice.uniform(0, 1))
        finish_prepared(connection, keys[0])
    else:
        connection.execute(end)
    return 0 if end == "rollback" else used


def finish_prepared(connection: psycopg.Connection[Any], name: str) -> None:
    """Commit the prepared transaction of this name, if there is one."""
    query = "select gid from pg_prepared_xacts where gid = %s"
    for (gid,) in connection.execute(query, [name]).fetchall():
        connection.execute(f"commit prepared '{gid}'")
