"""Tests of how a writer tells Prometheus its address."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.backends.prometheus.given import SNAPSHOT
from tests.unit.backends.prometheus.test_backend import FACTS, begun, scrape, show

from telemetry.backends.prometheus.backend import announce, reached_at


def test_a_writer_is_in_the_folder_while_it_listens(tmp_path: Path) -> None:
    """A writer's file is in the folder with the labels of its run.

    After the last scrape the writer ends and the file is removed.
    """
    backend = begun(tmp_path, targets=str(tmp_path / "targets"), linger=50.0)
    show(backend, SNAPSHOT)
    (file,) = (tmp_path / "targets").iterdir()
    (group,) = json.loads(file.read_text())
    assert [f"http://{target}/metrics" for target in group["targets"]] == [backend.where()]
    assert {key: value for key, value in group["labels"].items() if not key.startswith("__")} == {
        "run": "r1",
        "name": "job",
        "host": "here",
    }
    show(backend, replace(SNAPSHOT, state="COMPLETE"))
    scrape(backend)
    backend.close(final=True)
    assert list((tmp_path / "targets").iterdir()) == []


def test_a_writer_that_goes_on_later_leaves_no_file(tmp_path: Path) -> None:
    """The next process has its own."""
    backend = begun(tmp_path, targets=str(tmp_path / "targets"))
    backend.close(final=False)
    assert list((tmp_path / "targets").iterdir()) == []


def test_a_folder_that_cant_be_written_costs_the_file_only(tmp_path: Path) -> None:
    """The writer says so, and is scraped by its address."""
    (tmp_path / "file").write_text("")
    said: list[str] = []
    backend = begun(tmp_path, targets="none")
    backend.say = said.append
    assert said == []
    backend._options = replace(backend._options, targets=str(tmp_path / "file"))
    backend.open(FACTS, {})
    show(backend, SNAPSHOT)
    assert "depth" in scrape(backend)
    backend.close(final=False)
    assert len(said) == 1
    assert "can't write its target: File exists" in said[0]


def test_none_means_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting `none` makes no file, and a user without a home has no file either."""
    monkeypatch.chdir(tmp_path)
    assert announce("none", "127.0.0.1", 1, FACTS) is None
    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert announce("", "127.0.0.1", 1, FACTS) is None
    assert list(tmp_path.iterdir()) == []


def test_the_default_folder_is_that_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default folder is the user's, so that `telemetry stack` finds all writers."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = announce("", "127.0.0.1", 80, FACTS)
    assert path == tmp_path / "telemetry" / "targets" / f"run-r1-80-{os.getpid()}.json"


def test_a_listener_everywhere_is_reached_at_the_address_of_this_machine() -> None:
    """Never at a loopback address: other machines would ask themselves."""
    for host in ("0.0.0.0", "::"):
        address, _, port = reached_at(host, 9599).rpartition(":")
        assert port == "9599"
        assert not address.startswith("127.")
        assert address not in ("", host)
        assert address == socket.gethostname() or socket.inet_aton(address)
    assert reached_at("10.0.0.7", 1) == "10.0.0.7:1"
    assert reached_at("::1", 1) == "[::1]:1"
