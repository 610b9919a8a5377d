"""The file of passwords, and what is no such file."""

from __future__ import annotations

import pytest

from pgqpy.dashboard.access import Entry, check_password, make_entry, parse_entries
from pgqpy.errors import InvalidArgument
from tests.dashboard.conftest import SECRET


def test_only_the_right_password_of_this_name_is_right(entries: dict[str, Entry]) -> None:
    found = check_password(entries, "anna", SECRET)
    assert found is not None
    assert found.role == "operator"
    for name, password in (("anna", "wrong"), ("vera", SECRET + " "), ("nobody", SECRET), ("", "")):
        assert check_password(entries, name, password) is None


def test_two_lines_of_one_password_differ_and_do_not_contain_it() -> None:
    lines = {make_entry("anna", "viewer", SECRET) for _ in range(2)}
    assert len(lines) == 2
    assert not any(SECRET in line for line in lines)


def test_comments_and_empty_lines_are_left_out() -> None:
    text = f"# the night shift\n\n{make_entry('anna', 'viewer', SECRET)}\n"
    assert list(parse_entries(text)) == ["anna"]


LINE = f"anna:viewer:scrypt${'A' * 22}==${'B' * 43}="


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no login"),
        ("anna:viewer:secret", "line 1"),
        (LINE.replace("viewer", "admin"), "viewer or operator"),
        (LINE.replace("anna", ""), "name is empty"),
        (f"{LINE}\n{LINE}", "line 2"),
        (LINE[:-6], "no hash"),
        ("anna:viewer:scrypt$é$é", "no hash"),
        ("anna", "line 1"),
    ],
)
def test_a_wrong_line_is_named(text: str, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        parse_entries(text)


@pytest.mark.parametrize("name", ["", " anna", "an:na", "an\nna", "an\x1bna"])
def test_a_name_that_would_break_the_file_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument):
        make_entry(name, "viewer", SECRET)


def test_a_short_password_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="12 characters"):
        make_entry("anna", "viewer", "short")
