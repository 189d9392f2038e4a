"""Files of what is on the screen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from telemetry.errors import RunDirectoryError
from telemetry.tui import app

WALL_NS = 1_700_000_000_000_000_000
FACE = '@font-face { src: local("FiraCode"), url("https://example.org/a.woff2") format("woff2"); }'


def test_a_picture_and_its_numbers_lie_beside_each_other(tmp_path: Path) -> None:
    """A picture and its numbers lie side by side under the name of the run and the time.

    The folder is made if need be.
    """
    picture, numbers = app.write(tmp_path / "new", "my run/7", WALL_NS, "<svg/>", {"a": 1})
    assert picture == tmp_path / "new" / "my-run-7-20231114T221320Z.svg"
    assert picture.read_text() == "<svg/>"
    assert json.loads(numbers.read_bytes()) == {"a": 1}
    assert numbers.name == "my-run-7-20231114T221320Z.json"


@pytest.mark.parametrize(
    ("name", "stem"), [("../..", "run"), ("", "run"), ("Ω" * 300, "run"), ("x" * 300, "x" * 60)]
)
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str, stem: str) -> None:
    """The name of a run never leads out of the folder, whatever it is."""
    picture, _ = app.write(tmp_path, name, WALL_NS, "", {})
    assert picture.parent == tmp_path
    assert picture.name.startswith(f"{stem}-2023")


def test_a_picture_asks_nobody_for_anything() -> None:
    """Addresses of fonts are left out, names of fonts are not."""
    assert app.offline(FACE) == '@font-face { src: local("FiraCode"); }'


def test_a_folder_that_cant_be_written_is_said(tmp_path: Path) -> None:
    """A folder that can't be written is an error with its name."""
    (tmp_path / "file").write_text("")
    with pytest.raises(RunDirectoryError, match="file"):
        app.write(tmp_path / "file", "run", WALL_NS, "", {})
