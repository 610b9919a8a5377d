"""Settings: an argument, else an environment variable PGQPY_…, else the default."""

from __future__ import annotations

import json
import os
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

if TYPE_CHECKING:
    from typing_extensions import Self

# A quarter of an hour is the longest that makes sense for any period below; longer is a typo
# (milliseconds given for seconds). A description says, in an error, what a setting has to be.
Seconds = Annotated[
    float,
    Field(
        gt=0,
        le=900,
        allow_inf_nan=False,
        description="a number of seconds above 0, and at most 900",
    ),
]
MISSPELT = "misspelt"
Port = Annotated[int, Field(ge=0, le=65535)]


class Settings(BaseSettings):
    """What every command needs to know: where the database is.

    `dsn` (PGQPY_DSN) is a libpq connection string or URI; empty means libpq's own PG* variables.
    """

    model_config = SettingsConfigDict(env_prefix="PGQPY_", extra="forbid", frozen=True)

    # Kept out of repr(): it may hold a password, and settings are printed.
    dsn: str = Field(default="", repr=False)


class TickerSettings(Settings):
    """Settings of the ticker daemon; each is also an environment variable, as PGQPY_HTTP_PORT.

    Every period is in seconds. `dsns` are the databases to serve (PGQPY_DSNS, a JSON list);
    without them it is the one that `dsn` names.
    """

    # NoDecode: what is no JSON is an error like the others, with the name of the variable.
    dsns: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        repr=False,
        description='a JSON list of connection strings, as ["dbname=shop", "dbname=crm"]',
    )

    poll_interval: Seconds = 0.003  # between looks while events come in
    tick_interval: Seconds = 0.004  # from a tick to the next look: consumers take it meanwhile
    idle_poll_interval: Seconds = 0.05  # between looks once nothing has come in for 5 s
    due_period: Seconds = 1.0  # between questions for PGQ's own rules (idle ticks)
    retry_period: Seconds = 1.0  # between moves from the retry queue back into the queue
    maint_period: Seconds = 30.0  # between rotation and clean-up
    gauge_period: Seconds = 15.0  # between readings of consumer lag for /metrics
    health_limit: Seconds = 10.0  # a database without a good look for so long is unhealthy

    http_host: str = "127.0.0.1"
    http_port: Port | None = Field(  # None: no server; 0: any port
        default=None, description="a whole number from 0 to 65535"
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
    def _spelt_right(self) -> Self:
        for name in os.environ:
            written = name.lower().removeprefix("pgqpy_")
            if len(written) < len(name) and written not in TickerSettings.model_fields:
                for meant in get_close_matches(written, _LONG_NAMES, n=1, cutoff=0.85):
                    msg = f"{name} is no setting: did you mean PGQPY_{meant.upper()}?"
                    raise PydanticCustomError(MISSPELT, "{told}", {"told": msg})
        return self

    @property
    def databases(self) -> tuple[str, ...]:
        """The connection strings to serve, at least one, without repetitions."""
        return tuple(dict.fromkeys(self.dsns)) or (self.dsn,)


# Not dsn: PGQPY_DSN2 may be somebody's own.
_LONG_NAMES = [name for name in TickerSettings.model_fields if not name.startswith("dsn")]


def problems(exc: ValidationError) -> list[str]:
    """Say in a sentence each what is wrong with settings.

    Never the refused value itself: it may be a connection string with a password in it.
    """
    said = {}
    for problem in exc.errors(include_url=False, include_input=False, include_context=False):
        name = str(problem["loc"][0]) if problem["loc"] else "settings"
        if problem["type"] == MISSPELT:
            said[name] = problem["msg"]
            continue
        field = TickerSettings.model_fields.get(name)
        said[name] = (
            f"{name} (PGQPY_{name.upper()}) must be {field.description}"
            if field is not None and field.description
            else f"{name}: {problem['msg']}"
        )
    return list(said.values())
