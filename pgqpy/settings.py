"""Settings that every program has: where the database is."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """An argument, else an environment variable PGQPY_…, else the default.

    `dsn` (PGQPY_DSN) is a libpq connection string or URI; empty means libpq's own PG* variables.
    """

    model_config = SettingsConfigDict(env_prefix="PGQPY_", extra="forbid", frozen=True)

    # Kept out of repr(): it may hold a password, and settings are printed.
    dsn: str = Field(default="", repr=False)
