"""Parameters on the command line, and the commands that they make."""

from __future__ import annotations

import pytest

from telemetry.errors import UsageError
from telemetry.judge.sweeps.params import (
    Parameter,
    check_used,
    combinations,
    filled,
    parse_assignments,
    parse_parameters,
    scalar,
    told,
    variable,
)


def test_values_are_divided_by_commas() -> None:
    """Blanks around values do not count."""
    assert parse_parameters(["concurrency=1,2, 4", "mode=fast,slow"]) == [
        Parameter("concurrency", ("1", "2", "4")),
        Parameter("mode", ("fast", "slow")),
    ]


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ([], "no parameter"),
        (["concurrency"], "not a parameter with a value"),
        (["concurrency="], "not a parameter with a value"),
        (["=4"], "not a valid name"),
        (["a b=4"], "not a valid name"),
        (["c=1,,2"], "empty value"),
        (["c=1,2,1.0"], "has a value twice"),
        (["c=1", "c=2"], "given twice"),
        (["max-len=1,2", "max_len=3"], "same variable"),
    ],
)
def test_bad_parameters_are_refused(texts: list[str], words: str) -> None:
    """Each error says what is wrong with which parameter."""
    with pytest.raises(UsageError, match=words):
        parse_parameters(texts)


def test_assignments_keep_commas() -> None:
    """A parameter of one run has one value, whatever is in it."""
    assert parse_assignments(["ids=1,2", "path=a=b"]) == {"ids": "1,2", "path": "a=b"}
    with pytest.raises(UsageError, match="given twice"):
        parse_assignments(["a=1", "a=2"])


def test_all_combinations_the_last_parameter_fastest() -> None:
    """All combinations come in the order of nested loops, with the last parameter fastest."""
    found = combinations(parse_parameters(["a=1,2", "b=x,y"]))
    assert found == [{"a": "1", "b": "x"}, {"a": "1", "b": "y"}, {"a": "2", "b": "x"}, {"a": "2", "b": "y"}]
    numbers = ",".join(map(str, range(40)))
    with pytest.raises(UsageError, match="1,600 combinations"):
        combinations(parse_parameters([f"a={numbers}", f"b={numbers}"]))


@pytest.mark.parametrize(
    ("word", "made"),
    [
        ("{users}", "4"),
        ("--users={users}/{users}", "--users=4/4"),
        ("{{users}}", "{users}"),
        ("{other} {}", "{other} {}"),
        ('{"a": {"users": {users}}}', '{"a": {"users": 4}}'),
        ("{{", "{{"),
        ("{{users}: 1}", "{4: 1}"),
        ("plain", "plain"),
    ],
)
def test_braces(word: str, made: str) -> None:
    """A name in braces is replaced; doubled braces around it become single ones; all others stay."""
    assert filled([word], {"users": "4"}) == [made]


def test_an_unused_parameter_is_an_error() -> None:
    """The hint names the argument that was probably meant."""
    check_used(["load", "--users={users}"], ["users"])
    check_used(["sh", "-c", "load $TELEMETRY_PARAM_USERS"], ["users"])
    with pytest.raises(UsageError, match="does not use parameter users") as error:
        check_used(["load", "{user}"], ["users"])
    assert "{user} is not a parameter: write {users}" in error.value.hint
    assert "--env" in error.value.hint
    with pytest.raises(UsageError, match="does not use parameter users"):
        check_used(["load", "{{users}}"], ["users"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", 4),
        ("-3", -3),
        ("0.5", 0.5),
        ("1e-3", 0.001),
        ("007", 7.0),
        ("1e999", "1e999"),
        ("nan", "nan"),
        ("v1", "v1"),
        ("true", "true"),
    ],
)
def test_numbers_are_numbers(text: str, value: object) -> None:
    """All else stays text."""
    assert scalar(text) == value
    assert type(scalar(text)) is type(value)


def test_names_of_variables_and_words() -> None:
    """A variable has no dot and no dash."""
    assert variable("model.max-len") == "TELEMETRY_PARAM_MODEL_MAX_LEN"
    assert told({"users": 4, "lr": 0.001, "mode": "fast"}) == "users = 4, lr = 0.001, mode = fast"
