"""Tests of the values of `--to` and of the errors for wrong ones."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec import Struct

from telemetry import limits
from telemetry.backends import choice as choice_module
from telemetry.backends.backend import NotConfigured
from telemetry.backends.choice import known, load, make, parse, parse_all, unheeded
from telemetry.backends.console import ConsoleBackend
from telemetry.backends.items import KINDS
from telemetry.config.plugins.backends import BUILT_IN
from telemetry.config.plugins.choice import Choice, options_of
from telemetry.errors import UsageError


def others(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    points = [EntryPoint(name, value, "telemetry.backends") for name, value in values.items()]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)


class _Options(Struct):
    port: int = 9_000
    quiet: bool = False
    share: float | None = None
    mode: Literal["online", "offline"] = "online"


class Good:
    """A backend, as far as it is looked at here."""

    Options = _Options
    takes = KINDS
    idempotent = True

    def __init__(self, options: _Options, place: Path) -> None:
        self.options = options
        if options.port == 1:
            raise ImportError("no module named tracker", name="tracker")
        if options.port == 2:
            raise ValueError("odd")

    def open(self, run: object, state: dict[str, Any]) -> None: ...

    def write(self, items: Sequence[object]) -> None: ...

    def flush(self) -> None: ...

    def state(self) -> dict[str, Any]:
        return {}

    def close(self, *, final: bool) -> None: ...

    def where(self) -> str:
        return ""


class Bad:
    Options = _Options


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("jsonl", "jsonl", {}),
        ("jsonl:", "jsonl", {}),
        ("jsonl:path=a=b", "jsonl", {"path": "a=b"}),
        (r"jsonl:path=a\,b\\,as=two", "two", {"path": "a,b\\"}),
        ("console:every_s=1, values=2", "console", {"every_s": "1", "values": "2"}),
        ("jsonl:path=http://h:1/x", "jsonl", {"path": "http://h:1/x"}),
    ],
)
def test_a_kind_and_its_options(text: str, name: str, options: dict[str, str]) -> None:
    """Values may hold `=` and `:`, and a comma with a backslash; what it is written as means the same."""
    choice = parse(text)
    assert choice == Choice(name, text.partition(":")[0], options)
    assert parse(str(choice)) == choice


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("jsnl", "did you mean jsonl"),
        ("nowhere", "one of aim, clearml"),
        ("\x1b[2J", r"\\x1b"),
        ("jsonl:path", "'path' is not an option of jsonl"),
        ("jsonl:=x", "not an option"),
        ("jsonl:path=a,path=b", "path is given twice"),
        ("jsonl:as=../x", "is not a valid name for a backend"),
        ("jsonl:as=", "not a valid name"),
        ("wandb:api_key=123", "api_key is a secret"),
        ("wandb:token=123", "in the environment"),
        ("mlflow:db-password=1", "is a secret"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    """A wrong value is an error that tells what would be right."""
    with pytest.raises(UsageError, match=said) as error:
        parse(text)
    assert str(error.value).isprintable()
    assert "123" not in str(error.value)


def test_options_of_ours_are_checked_before_anything_starts() -> None:
    """Unknown ones by the near miss, others by what they should be; and names of writers are told apart."""
    assert [choice.name for choice in parse_all(["jsonl", "jsonl:as=b"])] == ["jsonl", "b"]
    for texts, said in (
        (["jsonl:pth=x"], "did you mean path"),
        (["console:colour=x"], "its options: as, every_s, values"),
        (["console:values=many"], "console: values=many: expected `int`"),
        (["console:values=0"], "values=0"),
        (["jsonl", "jsonl:path=x"], "two writers are named jsonl"),
        ([f"jsonl:as=n{number}" for number in range(limits.BACKENDS + 1)], "too many"),
    ):
        with pytest.raises(UsageError, match=said):
            parse_all(texts)


def test_others_are_found_by_their_entry_points(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Other backends come by their entry points and never replace ours.

    One that can't be loaded says why when it is to begin, not before.
    """
    here = "tests.unit.backends.test_choice"
    others(monkeypatch, mine=f"{here}:Good", jsonl=f"{here}:Good", broken="no_such_module:thing", bad=f"{here}:Bad")
    assert {"mine", "broken", "jsonl", "console"} <= set(known())
    assert load("jsonl").__name__ == "JsonlBackend"
    made = make(parse_all(["mine:port=5,quiet=true,share=0.5"])[0], tmp_path)
    assert made.options == _Options(5, True, 0.5)  # type: ignore[attr-defined]
    assert parse_all(["broken", "mine:no=1"])
    for text, said in (
        ("broken", "can't load the backend broken: package without a name is broken: ModuleNotFoundError"),
        ("bad", "it lacks takes, idempotent"),
        ("mine:no=1", "no option 'no'"),
        ("mine:port=1", "mine: ImportError: no module named tracker"),
        ("mine:port=2", "mine: ValueError: odd"),
    ):
        with pytest.raises(NotConfigured, match=said):
            make(parse(text), tmp_path)


def test_options_are_shown_with_their_defaults() -> None:
    """Options and their defaults are shown as a person would write them."""
    options = options_of(ConsoleBackend.Options)
    assert [(one.name, one.default) for one in options] == [("every_s", "2.0"), ("values", "8")]
    assert [(one.type, one.default) for one in options_of(Good.Options)] == [
        ("int", "9000"),
        ("bool", "false"),
        ("float | None", "None"),
        ("online or offline", "'online'"),
    ]


def test_settings_for_a_writer_that_is_not_there_are_said() -> None:
    """A name that nobody has, and the kind of a writer that is called otherwise; not what is for another run."""
    given = [parse("wandb:as=team"), parse("jsonl")]
    assert unheeded(["*", "jsonl", "team", "mlflow"], given) == []
    assert unheeded(["wandb", "jsnl"], given) == [
        "[backends.values.wandb] matches no writer; the writers are named jsonl, team",
        "[backends.values.jsnl] matches no writer; the writers are named jsonl, team",
    ]
    assert unheeded(["jsnl"], []) == []


def test_an_option_of_few_values_says_which() -> None:
    """The one that was given is none of them."""
    with pytest.raises(UsageError, match="prometheus: buckets=3: is not one of 1, 2, 4"):
        parse_all(["prometheus:buckets=3"])


@pytest.mark.parametrize("kind", [kind for kind, ours in BUILT_IN.items() if ours.needs])
def test_a_library_that_is_missing_is_a_usage_error(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing library is a usage error before anything starts, like an unknown name.

    The hint has the command that installs it.
    """
    monkeypatch.setattr(choice_module, "is_installed", lambda _module: False)
    with pytest.raises(UsageError, match=f"the backend {kind} needs .*, which is not installed") as caught:
        parse_all([f"{kind}:as=other"])
    assert caught.value.hint.startswith("pip install 'telemetryd[")
    assert parse_all(["jsonl"])[0].kind == "jsonl"
