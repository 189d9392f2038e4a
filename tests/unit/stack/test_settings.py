"""The settings of the stack."""

from __future__ import annotations

from pathlib import Path

import pytest

from telemetry.errors import ConfigError
from telemetry.stack.settings import StackSettings, load_settings, stack_directory

FILE = """
retention_days = 7
data = "mine"
[prometheus]
port = 19090
program = "/opt/prometheus"
[tempo]
enabled = false
[grafana]
home = "grafana"
"""


def test_a_file_is_read_and_its_paths_are_relative_to_it(tmp_path: Path) -> None:
    """Settings come from the file, with paths relative to it.

    A setting that the file does not name has its default.
    """
    (tmp_path / "stack.toml").write_text(FILE)
    found = load_settings(tmp_path / "stack.toml")
    assert (found.retention_days, found.data, found.targets) == (7, str(tmp_path / "mine"), "")
    assert (found.prometheus.port, found.prometheus.program) == (19090, "/opt/prometheus")
    assert not found.tempo.enabled
    assert found.grafana.home == str(tmp_path / "grafana")
    assert load_settings(None) == StackSettings()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[prometheus]\nprot = 1", "unknown field `prot`"),
        ("retention_days = 0", "retention_days"),
        ("[grafana]\nport = 70000", "grafana.port"),
        ('host = ""', "host"),
        ("[", "stack.toml"),
    ],
)
def test_a_wrong_file_is_an_error_that_names_it(tmp_path: Path, text: str, words: str) -> None:
    """The error of a wrong file names the file and the key."""
    (tmp_path / "stack.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"stack\.toml") as caught:
        load_settings(tmp_path / "stack.toml")
    assert words in str(caught.value)
    with pytest.raises(ConfigError, match="No such file"):
        load_settings(tmp_path / "none.toml")


def test_the_folder_is_the_chosen_one_or_that_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is the chosen one, or the one in the user's state. Without a home there is no default."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert stack_directory(Path("x")) == tmp_path / "x"
    assert stack_directory() == tmp_path / "telemetry" / "stack"
    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name)
    with pytest.raises(ConfigError, match="--dir"):
        stack_directory()
