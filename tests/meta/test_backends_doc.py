"""Tests that docs/BACKENDS.md has the settings, limits, states and backends there are. Its example is a backend."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from telemetry import limits
from telemetry.backends.choice import load, parse_all
from telemetry.backends.items import KINDS, CounterReading, GaugeReading, Reading, SeriesReading, Step
from telemetry.backends.mapping import ItemMapping
from telemetry.backends.naming import flat
from telemetry.config.plugins.backends import BUILT_IN
from telemetry.config.schema import BackendsConfig, BackendValues
from telemetry.testing import backends as contract
from telemetry.wire.snapshot import BackendStat, BackendState

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "BACKENDS.md").read_text()
WORDS = " ".join(TEXT.split())
OWN = TEXT.partition("## Write your own")[2]
PAGES = {
    "notify": "NOTIFICATIONS.md",
    "otlp": "OPENTELEMETRY.md#send-a-run",
    "parquet": "LAKE.md",
    "prometheus": "backends/PROMETHEUS.md",
    "timeline": "backends/TIMELINE.md",
    "wandb": "backends/TRACKERS.md#wb",
}
"""Pages of backends that have no section of their own name in that of the trackers."""


def rows(first_header: str) -> list[list[str]]:
    """Cells of the table whose header line begins so, with the header."""
    table = TEXT[TEXT.index(f"| {first_header} |") :].partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in (table[0], *table[2:])]


def test_every_backend_has_a_row_and_a_page() -> None:
    """Each backend has a row with the extra that it needs, and a page."""
    found = {row[0].strip("`"): row for row in rows("backend")[1:]}
    assert found.keys() == BUILT_IN.keys()
    for name, ours in BUILT_IN.items():
        wanted = f"`telemetryd[{ours.extra}]`" if ours.extra else "–"
        assert found[name][2] == wanted, name
        page = PAGES.get(name, f"backends/TRACKERS.md#{name}")
        assert (f"({page})" in found[name][3]) == (name not in ("jsonl", "console"))


@pytest.mark.slow
def test_what_each_has_a_place_for_is_what_it_takes() -> None:
    """Every kind of item, every backend."""
    head, *lines = rows("items")
    names = [cell.strip("`") for cell in head[1:]]
    assert names == sorted(BUILT_IN)
    found = {line[0].strip("`"): dict(zip(names, line[1:], strict=True)) for line in lines}
    assert sorted(found) == sorted(kind.__name__.lower() for kind in KINDS)
    for kind in KINDS:
        for name, cell in found[kind.__name__.lower()].items():
            assert (cell != "–") == (kind in load(name).takes), (kind, name)


def test_those_that_may_have_something_twice_are_named() -> None:
    """The document names exactly those backends that may have something twice."""
    named = WORDS.partition("All of our backends except ")[2].partition(" do this without duplicates")[0]
    assert set(re.findall(r"`(\w+)`", named)) == {name for name in BUILT_IN if not load(name).idempotent}


def test_flat_names_are_those_that_are_made() -> None:
    """The flat names in the document are those that are made of each kind of instrument."""
    series = SeriesReading(
        name="latency", labels={"route": "/a"}, percentiles={"50": 1.0, "99.9": 2.0}, mean=1.0, min=1.0, max=2.0
    )
    reading = Reading(
        key="t",
        time_ns=0,
        elapsed_s=1.0,
        seconds=1.0,
        series=[series],
        counters=[CounterReading(name="requests")],
        gauges=[GaugeReading(name="depth")],
    )
    table = dict(rows("instrument")[1:])
    head, *parts = re.findall(r"`([^`]+)`", table["series `latency` with the label `route=/a`"])
    names = [head, *(f"{head.rpartition('/')[0]}{part}" for part in parts)]
    names += re.findall(r"`([^`]+)`", table["counter `requests`"]) + re.findall(
        r"`([^`]+)`", table["gauge `depth`"]
    )
    assert names == list(flat(reading))


@pytest.mark.sdk
def test_the_settings_can_be_read() -> None:
    """The settings of the example can be read, and the example has all settings there are."""
    (text,) = [block for block in re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL) if "[backends]" in block]
    found = msgspec.convert(tomllib.loads(text)["backends"], BackendsConfig)
    parse_all(found.to)
    assert found.every_s == BackendsConfig().every_s
    mapping = ItemMapping(found.values["wandb"])
    step = Step(key="r", time_ns=0, axis="a", step=1, values={"train/loss": 1.0, "train/debug/x": 2.0, "b": 3.0})
    changed = mapping.apply(step)
    assert isinstance(changed, Step)
    assert changed.values == {"t/loss": 1.0}
    written = set(re.findall(r"^(\w+) = ", text.partition("[backends.values.wandb]")[2], re.MULTILINE))
    assert written == set(BackendValues.__struct_fields__)


def test_states_and_numbers_are_those_of_a_status() -> None:
    """Every state; every number that is named is a field."""
    assert [row[0].strip("`") for row in rows("state")[1:]] == list(get_args(BackendState))
    told = WORDS.partition("A status also has")[2].partition("where to look")[0]
    named = set(re.findall(r"`([a-z_]+)`", told)) - {"closed", "open"}
    assert named <= set(BackendStat.__struct_fields__)


def test_limits_are_those_of_the_code() -> None:
    """The numbers in the document are the limits of the code."""
    for said in (
        f"{limits.BACKEND_QUEUE_ITEMS:,} items or {limits.BACKEND_QUEUE_BYTES // limits.MIB} MiB",
        f"batches of up to {limits.BACKEND_BATCH_ITEMS:,} items",
        f"after {limits.BACKEND_RETRY_S} s, then twice as long each time up to {limits.BACKEND_RETRY_MOST_S:g} s",
        f"after {limits.BACKEND_BREAKER_FAILURES} failures in a row",
        f"{limits.BACKEND_TRIES} tries",
        f"hangs for {limits.BACKEND_CALL_S:g} s",
        f"have {BackendsConfig().finish_timeout_s:g} seconds (`backends.finish_timeout_s`)",
        f"at most {limits.BACKEND_PICTURE_BYTES // limits.MIB} MiB",
        f"{contract.NAMES:,} names in one step",
    ):
        assert said in WORDS, said


def test_what_a_contract_may_be_told_exists() -> None:
    """Every name in the table, with its arguments."""
    table = OWN.partition("| | |\n|---|---|\n")[2].partition("\n\n")[0].splitlines()
    named = re.findall(r"`(\w+)(?:\([^)]*\))?`", " ".join(line.split(" | ")[0] for line in table))
    assert len(named) > 6
    for name in named:
        assert hasattr(contract.BackendContract, name), name


def blocks() -> dict[str, str]:
    """File → what the example says is in it."""
    return dict(re.findall(r"`([\w.]+)`:\n\n```\w+\n(.*?)```", OWN, re.DOTALL))


def test_the_example_is_short() -> None:
    """Forty lines of code for the backend."""
    assert len(list(filter(str.strip, blocks()["csv_backend.py"].splitlines()))) <= 40


@pytest.mark.slow
def test_the_example_keeps_the_contract(tmp_path: Path) -> None:
    """The class, entry point and test keep the contract as they stand in the document."""
    from tests.backends.third_party import install, run_contract

    code, said = run_contract(install(blocks(), tmp_path), "test_csv.py")
    assert code == 0, said
    assert "1 skipped" in said
