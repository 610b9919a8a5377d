"""Settings of the daemon: an argument, else a variable PGQPY_…, else the default."""

from __future__ import annotations

import json
import os
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

if TYPE_CHECKING:
    from typing_extensions import Self

# No period below is sensibly longer than a quarter of an hour; a longer one is a typo (milliseconds
# instead of seconds). Error messages quote the description.
SECONDS = "a number of seconds above 0, and at most 900"
Seconds = Annotated[float, Field(gt=0, le=900, allow_inf_nan=False, description=SECONDS)]


class TickerSettings(BaseSettings):
    """Settings of the ticker daemon; each is also an environment variable, as PGQPY_HTTP_PORT.

    Every period is in seconds. `dsns` are the databases to serve (PGQPY_DSNS, a JSON list). If
    `dsns` is empty, the daemon serves the one database that `dsn` names: a libpq connection string
    or URI, or libpq's own PG* variables if it is empty too.
    """

    model_config = SettingsConfigDict(env_prefix="PGQPY_", extra="forbid", frozen=True)

    # Kept out of repr(): it may hold a password, and settings are printed.
    dsn: str = Field(default="", repr=False)

    # NoDecode: a value that is not JSON causes an error with the name of the variable.
    dsns: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        repr=False,
        description='a JSON list of connection strings, as ["dbname=shop", "dbname=crm"]',
    )

    poll_interval: Seconds = 0.003  # between polls while events come in
    tick_interval: Seconds = 0.004  # from a tick to the next poll: consumers take its batch
    idle_poll_interval: Seconds = 0.05  # between polls after 5 s without an event
    due_period: Seconds = 1.0  # between rounds of idle ticks, by PGQ's own rules
    retry_period: Seconds = 1.0  # between polls for due events that raise no notification
    maint_period: Seconds = 30.0  # between rotation and clean-up
    gauge_period: Seconds = 15.0  # between readings of lag for /metrics
    cron: bool = Field(default=True, description="true or false")  # whether cron entries are fired
    history: bool = Field(default=True, description="true or false")  # see pgq.maint_history
    health_limit: Seconds = 10.0  # without a successful poll a database is unhealthy

    http_host: str = "127.0.0.1"
    http_port: int | None = Field(  # None: no server; 0: any port
        default=None, ge=0, le=65535, description="a whole number from 0 to 65535"
    )

    log_format: Literal["console", "json"] = Field(default="console", description="console or json")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="debug, info, warning or error"
    )

    @field_validator("dsns", mode="before")
    @classmethod
    def _from_json(cls, value: Any) -> Any:
        return json.loads(value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check_spelling(self) -> Self:
        for name in os.environ:
            given = name.lower().removeprefix("pgqpy_")
            if len(given) < len(name) and given not in TickerSettings.model_fields:
                for similar in get_close_matches(given, _LONG_NAMES, n=1, cutoff=0.85):
                    msg = f"{name} is no setting: did you mean PGQPY_{similar.upper()}?"
                    raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _check_health_limit(self) -> Self:
        longest = max(self.poll_interval, self.tick_interval, self.idle_poll_interval)
        if longest >= self.health_limit:
            msg = (
                f"health_limit (PGQPY_HEALTH_LIMIT) must be longer than the intervals, {longest:g} "
                "seconds here: else the daemon is unhealthy between two polls"
            )
            raise ValueError(msg)
        return self

    @property
    def databases(self) -> tuple[str, ...]:
        """The connection strings of the databases to serve: at least one, each once."""
        return tuple(dict.fromkeys(self.dsns)) or (self.dsn,)


# Without dsn: PGQPY_DSN2 may be a variable of the application.
_LONG_NAMES = [name for name in TickerSettings.model_fields if not name.startswith("dsn")]


def problems(exc: ValidationError) -> list[str]:
    """Return one sentence for each wrong setting.

    None quotes the refused value, which may be a connection string with a password.
    """
    said = {}
    for problem in exc.errors(include_url=False, include_input=False, include_context=False):
        name = str(problem["loc"][0]) if problem["loc"] else ""  # "": a misspelt variable
        field = TickerSettings.model_fields.get(name)
        said[name] = (
            f"{name} (PGQPY_{name.upper()}) must be {field.description}"
            if field is not None and field.description
            else f"{name}: {problem['msg']}".removeprefix(": Value error, ")
        )
    return list(said.values())
