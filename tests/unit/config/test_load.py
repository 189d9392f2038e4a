"""Settings come from the strongest place that gives them, and every mistake is named at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from telemetry.config import BackendValues, Config, load
from telemetry.config.load import FIELDS, env_name, places
from telemetry.errors import ConfigError


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_defaults_come_from_the_schema(tmp_path: Path) -> None:
    """Every key has its default, and its origin is `default`, if no place sets it."""
    loaded = load(cwd=tmp_path, environ={})
    assert loaded.config == Config()
    assert set(loaded.origins) == set(FIELDS)
    assert set(loaded.origins.values()) == {"default"}


def test_stronger_places_win(tmp_path: Path) -> None:
    """Flag > environment > telemetry.toml > pyproject.toml > user config, key by key."""
    home = tmp_path / "home"
    user = write(home / ".config/telemetry/config.toml", "[run]\nrefresh_hz = 1\nwindow_s = 1\n")
    write(tmp_path / "pyproject.toml", "[tool.telemetry.run]\nrefresh_hz = 2\nwindow_s = 2\norphan_grace_s = 2\n")
    write(
        tmp_path / "telemetry.toml",
        "[run]\nrefresh_hz = 3\norphan_grace_s = 3\ndrain_timeout_s = 3\n[emit]\nflush_ms = 3\n",
    )
    environ = {"HOME": str(home), "TELEMETRY_RUN__DRAIN_TIMEOUT_S": "4", "TELEMETRY_EMIT__FLUSH_MS": "4"}
    loaded = load({"emit.flush_ms": 5, "emit.policy": None}, cwd=tmp_path, environ=environ)
    config, origins = loaded
    assert (config.run.window_s, origins["run.window_s"]) == (2, "pyproject.toml")
    assert (config.run.refresh_hz, origins["run.refresh_hz"]) == (3.0, "telemetry.toml")
    assert (config.run.drain_timeout_s, origins["run.drain_timeout_s"]) == (
        4.0,
        "environment TELEMETRY_RUN__DRAIN_TIMEOUT_S",
    )
    assert (config.emit.flush_ms, origins["emit.flush_ms"]) == (5.0, "flag")
    assert (config.emit.policy, origins["emit.policy"]) == ("drop", "default")
    (tmp_path / "pyproject.toml").unlink()
    assert load(cwd=tmp_path, environ={"HOME": str(home)}).origins["run.window_s"] == f"user config {user}"


def test_all_problems_are_named_at_once(tmp_path: Path) -> None:
    """One error lists every wrong key and value with its place and the near miss."""
    write(tmp_path / "telemetry.toml", "[run]\nrefesh_hz = 5\nwindow_s = 'ten'\n[emitt]\n[journal]\nenabled = 1\n")
    with pytest.raises(ConfigError) as caught:
        load({"emit.policy": "wait"}, cwd=tmp_path, environ={"TELEMETRY_EMIT__POLCY": "drop"})
    text = str(caught.value)
    assert caught.value.exit_code == 2
    assert text.startswith("6 problems")
    assert "unknown key run.refesh_hz (telemetry.toml), did you mean run.refresh_hz?" in text
    assert "unknown section 'emitt'" in text
    assert "did you mean emit?" in text
    assert "run.window_s = 'ten' (telemetry.toml)" in text
    assert "journal.enabled = 1 (telemetry.toml)" in text
    assert "TELEMETRY_EMIT__POLCY, did you mean TELEMETRY_EMIT__POLICY?" in text
    assert "emit.policy = 'wait' (flag): expected 'drop' or 'block'" in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("run.refresh_hz", "nan"),
        ("run.refresh_hz", "inf"),
        ("run.refresh_hz", "0"),
        ("run.percentiles", "50,0"),
        ("run.percentiles", "50,100.5"),
        ("run.percentiles", "50.0"),
        ("run.percentiles", "50,50"),
        ("run.percentiles", ""),
        ("run.dir", ""),
        ("emit.buffer_events", "1.5"),
        ("journal.enabled", "maybe"),
        ("journal.cap_bytes", "1048576"),
        ("tui.frames_per_s", "0"),
        ("tui.theme", ""),
    ],
)
def test_bad_values_are_refused(tmp_path: Path, key: str, value: str) -> None:
    """Values out of range, of the wrong type, or that contradict another key don't pass."""
    with pytest.raises(ConfigError, match=key):
        load({key: value}, cwd=tmp_path, environ={})


def test_keys_cannot_be_demanded_and_waived(tmp_path: Path) -> None:
    """A demand of keys everywhere conflicts with the switch that waives keys."""
    flags = {"security.curve": "always", "transport.insecure": True}
    with pytest.raises(ConfigError, match=r"security.curve = 'always' conflicts with transport.insecure"):
        load(flags, cwd=tmp_path, environ={})


def test_text_is_read_as_the_type_of_the_key(tmp_path: Path) -> None:
    """The environment knows only text: numbers, switches and comma-separated lists are read from it."""
    environ = {
        "TELEMETRY_RUN__PERCENTILES": "50, 99.999",
        "TELEMETRY_JOURNAL__ENABLED": "false",
        "TELEMETRY_LIMITS__SERIES": "7",
        "TELEMETRY_RUN__FALLBACK_DIRS": "/a,/b",
        "TELEMETRY_RUN__DIR": "",
        "TELEMETRY_ENDPOINT": "tcp://127.0.0.1:7",
    }
    config = load(cwd=tmp_path, environ=environ).config
    assert config.run.percentiles == ("50", "99.999")
    assert config.journal.enabled is False
    assert config.limits.series == 7
    assert config.run.fallback_dirs == ("/a", "/b")
    assert config.run.dir == "runs"


def test_tables_are_read_from_every_place(tmp_path: Path) -> None:
    """A table of the file is one inline or with a heading of its own; in the environment it is `name=value,…`."""
    for text in ('[tui]\nkeys = { figures = "f", back = "q" }\n', '[tui.keys]\nfigures = "f"\nback = "q"\n'):
        write(tmp_path / "telemetry.toml", text)
        assert load(cwd=tmp_path, environ={}).config.tui.keys == {"figures": "f", "back": "q"}
    loaded = load(cwd=tmp_path, environ={"TELEMETRY_TUI__KEYS": "figures = w, stop=ctrl+k,"})
    assert loaded.config.tui.keys == {"figures": "w", "stop": "ctrl+k"}
    assert loaded.origins["tui.keys"] == "environment TELEMETRY_TUI__KEYS"


@pytest.mark.parametrize("text", ["figures", "figures=", "=f", "figures=f,figures=g"])
def test_text_that_is_no_table_is_refused(tmp_path: Path, text: str) -> None:
    """Each name once, with a value."""
    with pytest.raises(ConfigError, match=r"tui\.keys"):
        load(cwd=tmp_path, environ={"TELEMETRY_TUI__KEYS": text})


BACKENDS = """
[backends]
to = ["jsonl:path=a"]
[backends.values.wandb]
include = ["train/*"]
rename = { "train/*" = "t/*" }
every_steps = 10
[backends.values."*"]
every_s = 2
"""


def test_values_of_backends_are_tables_in_a_table(tmp_path: Path) -> None:
    """Values of a backend are under its name, or `*` for the others; missing values are as for all."""
    write(tmp_path / "telemetry.toml", BACKENDS)
    loaded = load(cwd=tmp_path, environ={"TELEMETRY_BACKENDS__EVERY_S": "5"})
    backends = loaded.config.backends
    assert (backends.to, backends.every_s, backends.finish_timeout_s) == (("jsonl:path=a",), 5.0, 30.0)
    assert backends.values == {
        "wandb": BackendValues(include=("train/*",), rename={"train/*": "t/*"}, every_steps=10),
        "*": BackendValues(every_s=2.0),
    }
    assert loaded.origins["backends.values"] == "telemetry.toml"
    assert loaded.origins["backends.every_s"] == "environment TELEMETRY_BACKENDS__EVERY_S"


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"wandb": {"incude": []}}, "unknown key backends.values.wandb.incude .* did you mean include"),
        ({"wandb": {"every_s": 0}}, "backends.values = .*every_s"),
        ({"wandb": {"every_s": float("nan")}}, "backends.values = .*every_s"),
        ({"wandb": {"include": "loss"}}, "backends.values = .*include"),
        ({"wandb": 3}, "backends.values = "),
        ({"wandb": {"rename": {"a": ""}}}, "backends.values = .*rename"),
        ("wandb=3", "backends.values = "),
    ],
)
def test_bad_values_of_backends_are_refused(tmp_path: Path, table: object, says: str) -> None:
    """Unknown keys with the near miss, as everywhere."""
    with pytest.raises(ConfigError, match=says):
        load({"backends.values": table}, cwd=tmp_path, environ={})


@pytest.mark.parametrize(
    ("text", "backends"),
    [
        ("jsonl", ("jsonl",)),
        ("wandb:project=x,mode=offline, jsonl", ("wandb:project=x,mode=offline", "jsonl")),
        ("otlp:endpoint=http://h:1/v1,as=a,console", ("otlp:endpoint=http://h:1/v1,as=a", "console")),
        (r"jsonl:path=a\,b:c,console", (r"jsonl:path=a\,b:c", "console")),
        (",console,", ("console",)),
    ],
)
def test_backends_in_the_environment(tmp_path: Path, text: str, backends: tuple[str, ...]) -> None:
    """Commas stand between them and between their options: `key=value` goes on with the one before."""
    found = load(cwd=tmp_path, environ={"TELEMETRY_BACKENDS__TO": text}).config.backends.to
    assert found == backends


def test_percentiles_may_be_numbers_in_toml(tmp_path: Path) -> None:
    """`[50, 99.9]` means the same as `["50", "99.9"]`."""
    write(tmp_path / "telemetry.toml", "[run]\npercentiles = [50, 99.9, 90.0]\n")
    assert load(cwd=tmp_path, environ={}).config.run.percentiles == ("50", "99.9", "90")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("telemetry.toml", "[run\n", "is not valid TOML:"),
        ("telemetry.toml", "run = 3\n", "must be a table"),
        ("pyproject.toml", "[tool]\ntelemetry = 3\n", "not a table"),
        ("telemetry.toml", f"# settings\n{'a.' * 10_000}a = 1\n", "line 2 has more than 1,000 dots"),
        ("telemetry.toml", f"[[limits]]\n{'a.' * 1_000}a = 1\n", "must be a table, not a value of many levels"),
        ("telemetry.toml", f"[limits]\n{'series.' * 1_000}a = 1\n", "limits.series = a value of many levels"),
        ("telemetry.toml", "[run]\nrefresh_hz = nan\n", "run.refresh_hz"),
        ("telemetry.toml", "[run]\nrefresh_hz = 2024-01-01\n", "run.refresh_hz"),
    ],
    ids=lambda text: text[:40],
)
def test_broken_files_are_one_clear_error(tmp_path: Path, name: str, text: str, says: str) -> None:
    """A file that is no TOML, or has the wrong shape, is a ConfigError and nothing else."""
    write(tmp_path / name, text)
    with pytest.raises(ConfigError, match=says):
        load(cwd=tmp_path, environ={})


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    """Bytes that are no UTF-8, or a directory in the file's place, are named."""
    (tmp_path / "telemetry.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "pyproject.toml").mkdir()
    with pytest.raises(ConfigError, match="2 problems"):
        load(cwd=tmp_path, environ={})


def test_places_follow_the_environment(tmp_path: Path) -> None:
    """An absolute XDG_CONFIG_HOME wins over HOME, and without both there is no user file."""
    assert places(tmp_path, {"XDG_CONFIG_HOME": "/x", "HOME": "/h"})[0].path == Path("/x/telemetry/config.toml")
    assert places(tmp_path, {"XDG_CONFIG_HOME": "x", "HOME": "/h"})[0].path == Path(
        "/h/.config/telemetry/config.toml"
    )
    assert [place.origin for place in places(tmp_path, {})] == ["pyproject.toml", "telemetry.toml"]


def test_environment_names_are_unambiguous() -> None:
    """Each key has an environment variable of its own, and none collides with `TELEMETRY_ENDPOINT`."""
    names = [env_name(key) for key in FIELDS]
    assert len(set(names)) == len(names)
    assert all("__" in name for name in names)


def test_importing_the_settings_is_light() -> None:
    """`telemetry.config` loads neither a TOML reader nor anything heavy until a file exists."""
    code = "import sys, telemetry.config; print(*{'tomllib','difflib','numpy','asyncio','zmq'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []


def test_a_working_directory_that_is_gone_holds_no_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other places go on."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert load({"run.window_s": 3}, environ={}).config.run.window_s == 3
