"""The backend that is asked and not told."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.backends.prometheus.given import SNAPSHOT

from telemetry.backends.backend import NotConfigured, RunFacts
from telemetry.backends.items import Live
from telemetry.backends.prometheus.backend import PrometheusBackend, PrometheusOptions
from telemetry.wire.snapshot import GaugeStat, MetricsSnapshot

FACTS = RunFacts("r1", "job", 0, None, host="here")


def begun(tmp_path: Path, state: dict[str, Any] | None = None, **options: Any) -> PrometheusBackend:
    backend = PrometheusBackend(PrometheusOptions(**({"port": 0} | options)), tmp_path)
    backend.open(FACTS, state or {})
    return backend


def show(backend: PrometheusBackend, snapshot: MetricsSnapshot) -> None:
    backend.write([Live(key="s", time_ns=0, snapshot=snapshot)])
    backend.flush()


def scrape(backend: PrometheusBackend) -> str:
    with urllib.request.urlopen(backend.where(), timeout=10) as answer:
        return str(answer.read().decode())


def test_the_newest_snapshot_is_served(tmp_path: Path) -> None:
    """The server has nothing before there is a snapshot, and afterwards serves the newest one."""
    backend = begun(tmp_path)
    with pytest.raises(urllib.error.HTTPError, match="503"):
        scrape(backend)
    show(backend, SNAPSHOT)
    assert "\ndepth -2.5\n" in scrape(backend)
    gauges = [GaugeStat(name="depth", value=value) for value in (3, 4)]
    backend.write([Live(key="s", time_ns=0, snapshot=replace(SNAPSHOT, gauges=[gauge])) for gauge in gauges])
    assert "\ndepth 4.0\n" in scrape(backend)
    backend.close(final=False)
    assert backend.where() == ""


def test_the_final_values_are_served_until_they_were_scraped(tmp_path: Path) -> None:
    """Scrapes before the end don't count."""
    backend = begun(tmp_path, linger=50.0)
    show(backend, SNAPSHOT)
    scrape(backend)
    show(backend, replace(SNAPSHOT, state="COMPLETE"))
    found: list[str] = []
    scraper = threading.Timer(0.05, lambda: found.append(scrape(backend)))
    scraper.start()
    backend.close(final=True)
    scraper.join()
    assert 'telemetry_run_state{state="COMPLETE"} 1.0' in found[0]
    backend.close(final=True)


def test_nobody_is_waited_for_for_ever(tmp_path: Path) -> None:
    """The backend does not wait for a scrape for ever. A note tells that the final values were not scraped."""
    said: list[str] = []
    backend = begun(tmp_path, linger=0.01)
    backend.say = said.append
    show(backend, replace(SNAPSHOT, state="INTERRUPTED"))
    backend.close(final=True)
    assert said == ["the final values were not scraped within 0.01 s"]


def test_a_long_wait_for_the_last_scrape_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long wait for the last scrape is reported. A user who waits for the run's end has to know why."""
    monkeypatch.setattr("telemetry.backends.prometheus.backend._UNTOLD_S", 0.01)
    said: list[str] = []
    backend = begun(tmp_path, linger=0.02)
    backend.say = said.append
    show(backend, replace(SNAPSHOT, state="COMPLETE"))
    backend.close(final=True)
    assert said == [
        "waits up to 0.02 s for the final values to be scraped",
        "the final values were not scraped within 0.02 s",
    ]


def test_the_next_process_has_the_same_address_and_names(tmp_path: Path) -> None:
    """The next process gets address and names from a state that fits a checkpoint.

    A port that was asked for and is in use is an error, any other is replaced.
    """
    backend = begun(tmp_path)
    show(backend, replace(SNAPSHOT, gauges=[GaugeStat(name="a/b", value=1), GaugeStat(name="a.b", value=2)]))
    scrape(backend)
    state = json.loads(json.dumps(backend.state()))
    other = begun(tmp_path, state)
    assert other.where() != backend.where()
    with pytest.raises(NotConfigured, match="is in use"):
        begun(tmp_path, port=backend.state()["port"])
    other.close(final=False)
    backend.close(final=False)
    again = begun(tmp_path, state)
    assert again.state()["port"] == state["port"]
    show(again, replace(SNAPSHOT, gauges=[GaugeStat(name="a.b", value=2)]))
    assert "\nU__a_2e_b 2.0\n" in scrape(again)
    again.close(final=False)
