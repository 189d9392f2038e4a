"""Files of targets: who writes them, and when they go."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from telemetry.store.processes import start_of
from telemetry.store.scrape_targets import (
    OWNER,
    ScrapeGroup,
    add_targets,
    default_folder,
    remove_dead,
    remove_targets,
    target_files,
)

HERE = f"{socket.gethostname()}/{os.stat('/proc/self/ns/pid').st_ino}"


def foreign(folder: Path, name: str, owner: str | None) -> Path:
    path = folder / f"{name}.json"
    labels = {} if owner is None else {OWNER: owner}
    path.write_text(json.dumps([{"targets": ["h:1"], "labels": labels}]))
    return path


def test_a_file_has_the_form_of_prometheus_and_its_process(tmp_path: Path) -> None:
    """Addresses, labels with names that Prometheus takes, and the owner. The folder is for this user."""
    folder = tmp_path / "a" / "targets"
    path = add_targets(folder, "run/x y", [ScrapeGroup(["h:1"], {"run": "r", "a-b": "c", "1st": "d"})])
    (group,) = json.loads(path.read_text())
    owner = f"{HERE}/{os.getpid()}/{start_of(os.getpid())}"
    assert group == {"targets": ["h:1"], "labels": {"run": "r", "a_b": "c", "_1st": "d", OWNER: owner}}
    assert path.name == f"run_x_y-{os.getpid()}.json"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert add_targets(folder, "run/x y", [ScrapeGroup(["h:2"])]) == path
    assert [file.groups[0].targets for file in target_files(folder)] == [["h:2"]]
    remove_targets(path)
    remove_targets(path)
    assert list(folder.iterdir()) == []


def test_only_files_of_dead_processes_of_this_host_are_removed(tmp_path: Path) -> None:
    """A later process with the same pid does not keep a file. Files of other hosts and those by hand stay."""
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    me, started = os.getpid(), start_of(os.getpid())
    dead = [
        foreign(tmp_path, "ended", f"{HERE}/{ended.pid}/1"),
        foreign(tmp_path, "reused", f"{HERE}/{me}/{started + 1}"),
    ]
    kept = [
        foreign(tmp_path, "alive", f"{HERE}/{me}/{started}"),
        foreign(tmp_path, "elsewhere", f"not-{HERE}/{ended.pid}/1"),
        foreign(tmp_path, "container", f"{HERE}1/{ended.pid}/1"),  # with the name of this host
        foreign(tmp_path, "by_hand", None),
        foreign(tmp_path, "odd", "no owner"),
    ]
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "other.json").write_text('{"targets": []}')
    assert sorted(remove_dead(tmp_path)) == sorted(dead)
    assert remove_dead(tmp_path) == []
    assert sorted(tmp_path.iterdir()) == sorted([*kept, tmp_path / "broken.json", tmp_path / "other.json"])


def test_the_next_writer_cleans_up(tmp_path: Path) -> None:
    """The next writer removes files of dead writers, so that no other program has to."""
    foreign(tmp_path, "reused", f"{HERE}/{os.getpid()}/1")
    path = add_targets(tmp_path, "mine", [ScrapeGroup(["h:1"])])
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"XDG_STATE_HOME": "/state", "HOME": "/h"}, Path("/state/telemetry/targets")),
        ({"XDG_STATE_HOME": "relative", "HOME": "/h"}, Path("/h/.local/state/telemetry/targets")),
        ({"HOME": "/h"}, Path("/h/.local/state/telemetry/targets")),
        ({}, None),
    ],
)
def test_the_default_folder_is_in_the_state_of_the_user(environ: dict[str, str], folder: Path | None) -> None:
    """The default folder follows the XDG directories."""
    assert default_folder(environ) == folder


def test_no_folder_has_no_files(tmp_path: Path) -> None:
    """A missing folder has no target files, and neither has a file of its name."""
    assert remove_dead(tmp_path / "none") == []
    (tmp_path / "file").write_text("")
    assert list(target_files(tmp_path / "file")) == []
