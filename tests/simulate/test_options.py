"""Options of a simulation: each kind of bad input is one line that says what to do."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from pgqpy.cli.app import app
from pgqpy.simulate import Options, parse_duration, parse_work


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("2s", 2.0), ("1.5 min", 90.0), ("0", 0.0)]
)
def test_a_duration_has_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "2", "-1s", "2h", "nan s", "1e3s", "61min", "1s 2s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|hour"):
        parse_duration(text)


def test_work_is_one_duration_or_two() -> None:
    assert parse_work("1ms-10ms") == (0.001, 0.01)
    assert parse_work("5ms") == (0.005, 0.005)
    with pytest.raises(ValueError, match="ends before it begins"):
        parse_work("10ms-1ms")


def test_options_survive_the_way_to_a_process() -> None:
    options = Options(workers=3, compare=False, work=(0.0, 0.5), seed=7)
    assert Options.from_json(options.json()) == options


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--lanes", "2"], "No such option"),
        (["--fill", "0"], "0 is not in the range"),
        (["--keep"], "--keep needs --dsn"),
        (["--no-compare", "--delmsg"], "--delmsg belongs to the comparison"),
        (["--no-compare", "--sleep", "1s"], "--sleep belongs to the comparison"),
        (["--schema", "/nowhere/schema.sql"], "No such file or directory"),
        (["--work", "10ms-1ms"], "'10ms-1ms' ends before it begins"),
        (["--kill-every", "2"], "'2' is no duration: write a number with its unit"),
        (["--fail", "2"], "2.0 is not in the range"),
        (["--rate", "nan"], "nan is not a number"),
        (["--keys", "0"], "0 is not in the range"),
        (["--log", "/nowhere/log"], "No such file or directory"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["simulate", *arguments], prog_name="pgqpy")
    assert result.exit_code == 2, result.output
    assert said in result.output
    assert result.output.count("\n") == 1
