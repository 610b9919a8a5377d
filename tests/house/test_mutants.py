"""The mutants that tools/mutate_sql.py makes of a function."""

from __future__ import annotations

from tools.mutate_sql import mutants

SQL = """
-- A comment where nothing and nobody < is changed.
create function f(a int default min(1)) returns int language plpgsql as $f$
declare
    v_text text := 'no = 1 and no < 2';
begin
    -- if this then
    if a is distinct from b and c between 1 and 2 or (d or e) then
        perform g('if', $$x$$);
    elsif not found then
        insert into t values (1) on conflict (x) do nothing returning y into v_text;
    end if;
    return (select least(x, 1) from t where x <= 1 for no key update of t skip locked);
end $f$;
"""


def test_each_condition_lock_statement_and_comparison_is_changed() -> None:
    found = {mutant.name for mutant in mutants("f.sql", SQL)}
    whole = "a is distinct from b and c between 1 and 2 or (d or e)"
    assert found == {
        "a is distinct from b -> true",
        "c between 1 and 2 -> true",
        "(d or e) -> false",
        "d -> false",
        "e -> false",
        f"{whole} -> false",
        f"{whole} -> true",
        "perform g('if', $$x$$) -> null",
        "not found -> false",
        "not found -> true",
        "insert into t values (1) on conflict (x) do nothing returning y into v_text -> null",
        "on conflict (x) do nothing -> ",
        "least -> greatest",
        "x <= 1 -> true",
        "<= -> <",
        "for no key update of t skip locked -> ",
    }


def test_only_dynamic_sql_is_changed_in_strings() -> None:
    sql = "$$ v := v || ' and x operator(pg_catalog.<) 1' || 'this and that'; $$"
    found = [(mutant.name, mutant.sql) for mutant in mutants("f.sql", sql)]
    assert found == [
        ("' and x operator(pg_catalog.<) 1' -> ''", "$$ v := v || '' || 'this and that'; $$"),
        ("< -> <=", sql.replace("<", "<=")),
    ]


def test_mutants_with_one_name_are_told_apart() -> None:
    found = list(mutants("f.sql", "$$ select where x; select where x $$"))
    assert [mutant.name for mutant in found] == ["x -> true", "x -> true #2"]
