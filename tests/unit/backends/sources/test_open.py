"""A run is opened from wherever it can be had, as the settings of its backend say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.backends.going import LATENCY, Face, Going, closed, drained, keys

from telemetry.backends.sources.open import open_source
from telemetry.backends.sources.source import Position
from telemetry.config import BackendsConfig, BackendValues, Config
from telemetry.errors import ConfigError, EndpointError, UsageError

VALUES = {"wandb": BackendValues(every_s=5, every_steps=3), "*": BackendValues(exclude=("loss",))}
CONFIG = Config(backends=BackendsConfig(every_s=2, values=VALUES))


@pytest.fixture
def going(tmp_path: Path) -> Iterator[Going]:
    made = Going(tmp_path)
    for number in range(11):
        made.say(closed(number))
        made.second((LATENCY, 1.0))
    yield made
    made.die()


def kinds(going: Going, backend: str, every_s: float | None = None) -> str:
    source = open_source(backend, Position(), CONFIG, directory=going.directory, every_s=every_s)
    return "".join(key[0] for key in keys(drained(source)))


def test_each_backend_has_its_values_and_cadence(going: Going) -> None:
    """The cadence of a call comes before the backend's own table, and that before the cadence of all."""
    going.end()
    assert kinds(going, "wandb") == "rrtrrttfr"
    assert kinds(going, "jsonl") == "ttttttf"
    assert kinds(going, "jsonl", 11.0) == "tf"


def test_a_live_run_is_asked(going: Going, short_dir: Path) -> None:
    """A live run with an address that answers is asked for its items."""
    face = Face(short_dir, going)
    source = open_source("other", Position(), CONFIG, endpoint=face.endpoint, live=True)
    assert source.run.directory == going.directory.path
    assert keys(source.read(1, 5.0))[0][0] in "st"
    source.close()
    face.stop()


def test_a_directory_stands_in_for_an_aggregator_that_is_gone(going: Going, short_dir: Path) -> None:
    """A directory stands in for an aggregator that is gone. Without a directory it is an error."""
    going.end()
    nowhere = f"ipc://{short_dir}/nobody"
    source = open_source("jsonl", Position(), CONFIG, endpoint=nowhere, directory=going.directory)
    assert keys(drained(source))[-1] == "final"
    with pytest.raises(EndpointError):
        open_source("jsonl", Position(), CONFIG, endpoint=nowhere)
    with pytest.raises(UsageError):
        open_source("jsonl", Position(), CONFIG)


def test_renames_that_can_t_be_are_said_at_once(going: Going) -> None:
    """A rename that can't be is an error before anything is opened."""
    values = {"jsonl": BackendValues(rename={"a*": "b"})}
    config = Config(backends=BackendsConfig(values=values))
    with pytest.raises(ConfigError):
        open_source("jsonl", Position(), config, directory=going.directory)
