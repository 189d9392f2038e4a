"""The choice of figures as a user writes it and as it travels."""

from __future__ import annotations

import pytest

from telemetry.common.headline_choice import PARAM, chosen, encoded, parse, shown_params
from telemetry.errors import UsageError


@pytest.mark.parametrize(
    ("text", "function", "name", "labels"),
    [
        ("loss", "", "loss", {}),
        ("train/loss", "", "train/loss", {}),
        (" p99(latency) ", "p99", "latency", {}),
        ("p99.9 (chat.ttft{route=/search, model='m'})", "p99.9", "chat.ttft", {"route": "/search", "model": "m"}),
        ("best(eval/accuracy)", "best", "eval/accuracy", {}),
        ("http.server.requests{code=200}", "", "http.server.requests", {"code": "200"}),
    ],
)
def test_a_choice_has_a_function_a_name_and_labels(
    text: str, function: str, name: str, labels: dict[str, str]
) -> None:
    """All but the name are optional."""
    choice = parse(text)
    assert (choice.function, choice.name, dict(choice.labels)) == (function, name, labels)
    assert choice.percentile == function.removeprefix("p") * function.startswith("p")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "p99()",
        "p99(",
        "p101(latency)",
        "p(latency)",
        "median(latency)",
        "a\nb",
        "x" * 301,
        "a{b}",
        5,
        None,
    ],
)
def test_a_wrong_choice_says_what_to_write(text: object) -> None:
    """The error names the text and has a way out."""
    with pytest.raises(UsageError) as caught:
        parse(text)  # type: ignore[arg-type]
    assert str(caught.value)


def test_a_choice_survives_its_way() -> None:
    """Order and labels stay; other parameters are untouched."""
    names = ['p99(latency{route="/a,b"})', "loss", "é"]
    with pytest.raises(UsageError, match="labels are written"):
        encoded(names)
    names[0] = "p99(latency{route=/a})"
    params = {"batch": 32, PARAM: encoded(names)}
    assert [choice.text for choice in chosen(params)] == names
    assert shown_params(params) == {"batch": 32}
    assert shown_params({"batch": 32}) == {"batch": 32}


@pytest.mark.parametrize("value", ["", "loss", "{}", "[1]", '["p99("]', "[" * 100_000, 5, None, True])
def test_an_unreadable_choice_is_no_choice(value: object) -> None:
    """Any program may set the parameter."""
    assert chosen({PARAM: value}) == []


@pytest.mark.parametrize("number", [0, 8])
def test_a_headline_has_one_to_seven_figures(number: int) -> None:
    """More would not be a headline."""
    with pytest.raises(UsageError, match="1 to 7 figures"):
        encoded(["loss"] * number)
