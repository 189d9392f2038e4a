"""Trackio's database, read back by Trackio: from its folder, and through a server of its."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from tests.backends import handing
from tests.backends.reading_trackio import dump, read_back, told
from tests.backends.test_tensorboard import ROOT, check, hand
from tests.ports import free_port
from tests.processes import end_group

pytestmark = pytest.mark.slow

_SERVER = "import sys, trackio; trackio.show(open_browser=False, host='127.0.0.1', server_port=int(sys.argv[1]))"


def test_everything_is_read_back(tmp_path: Path) -> None:
    """10,000 steps of 20 scalars, 10 series and one of everything else."""
    hand("trackio", tmp_path, 10_000)
    data = dump(tmp_path / "data" / "bench.db")
    found = told(data)
    check(found, 10_000)
    assert found.params == {"lr": "0.25", "layers": "4", "opt": "adam", "warm": "True", "none": "None"}
    assert data["name"] == "bench-1"
    rows = {key: (step, row) for key, step, row in data["rows"]}
    assert rows["m1"] == (3, {"sample": {"_type": "trackio.markdown", "_value": "# Hello\n\n*there* ü"}})
    best = [{"name": "x|y", "a|b": 1}, {"name": None, "a|b": 2.5}]
    assert rows["m2"] == (3, {"best": {"_type": "trackio.table", "_value": best}})
    weights = {"_type": "trackio.histogram", "bins": [-1.0, 0.0, 1.0, 4.0], "values": [1, 0, 5]}
    assert rows["m3"] == (3, {"weights": weights})
    picture = tmp_path / "data" / "media" / rows["m4"][1]["plot"]["file_path"]
    assert picture.read_bytes() == handing.PNG
    cells = {"_type": "trackio.histogram", "bins": [1.0, 2.0, 4.0, 5.0, 9.0, 9.75], "values": [3, 0, 4, 0, 1]}
    assert rows["t30"][0] == 300
    assert rows["t30"][1]["latency3{route=/a}/histogram"] == cells
    assert [(mark["title"], mark["text"]) for mark in data["alerts"]] == [("warm", "producer=p, rank=0")]
    assert [(one["name"], one["type"]) for one in data["artifacts"]] == [("model", "model")]


def test_a_killed_writer_leaves_no_trace(tmp_path: Path) -> None:
    """Items that are written again after SIGKILL are in the database once."""
    hand("trackio", tmp_path, 1_500, killed_after=2)
    hand("trackio", tmp_path, 1_500)
    check(read_back(tmp_path, ""), 1_500)


@contextmanager
def served(folder: Path, wait_until: Callable[..., Any]) -> Iterator[str]:
    """The address of a Trackio server that takes the token `sesame`."""
    address = f"http://127.0.0.1:{free_port()}"
    environ = os.environ | {"TRACKIO_DIR": str(folder), "TRACKIO_WRITE_TOKEN": "sesame", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", _SERVER, address.rpartition(":")[2]]
    server = subprocess.Popen(
        command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )

    def listens() -> bool:
        assert server.poll() is None
        with suppress(URLError), urlopen(f"{address}/version", timeout=5):
            return True
        return False

    try:
        wait_until(listens, 30.0, "the server")
        yield address
    finally:
        end_group(server)


def test_a_server_takes_it_once_too(
    tmp_path: Path, wait_until: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server has each item once, also items that a killed writer sent before.

    A writer without a valid token is told to set one.
    """
    with served(tmp_path / "server", wait_until) as address:
        monkeypatch.setenv("TRACKIO_WRITE_TOKEN", "sesame")
        hand(f"trackio:server={address}", tmp_path, 1_000, killed_after=2)
        hand(f"trackio:server={address}", tmp_path, 1_000)
        asked = json.dumps(
            {"args": [], "kwargs": {"project": "bench", "run": "bench-1", "run_id": "run-1"}}
        ).encode()
        with urlopen(Request(f"{address}/api/get_logs", asked, {"Content-Type": "application/json"})) as answer:
            logs = json.load(answer)["data"]
        assert sum("train/v0" in row for row in logs) == 1_000
        found = read_back(tmp_path, str(tmp_path / "server" / "bench.db"))
        check(found, 1_000)
        assert {"image", "marks"} & found.counts.keys() == {"marks"}
        assert found.counts["artifact"] == 2  # the picture is one of them: by reference
        said = refusal(f"trackio:server={address}", tmp_path / "other", {"TRACKIO_WRITE_TOKEN": "wrong"})
        assert "set TRACKIO_WRITE_TOKEN" in said
    assert "Unavailable" in refusal(f"trackio:server={address}", tmp_path / "late", {})


def refusal(to: str, folder: Path, environ: dict[str, str]) -> str:
    words = [sys.executable, "-m", "tests.backends.handing", to, str(folder), "10"]
    done = subprocess.run(
        words, cwd=ROOT, env=os.environ | environ, check=False, timeout=60, capture_output=True, text=True
    )
    assert done.returncode == 1
    return done.stderr
