"""Plug-ins of other packages: whose they are, which one is used, and what is wrong with one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from telemetry.config.plugins.entry_points import GROUPS, Plugin, PluginError, find, load, offered, plugins

BUILT_IN = {"ours": "json:JSONDecoder"}


def pack(folder: Path, name: str, version: str, points: str, metadata: str | None = None) -> None:
    """Write what an installer leaves of a package that offers collectors."""
    facts = folder / f"{name}-{version}.dist-info"
    facts.mkdir(parents=True)
    facts.joinpath("entry_points.txt").write_text(f"[telemetry.collectors]\n{points}\n")
    default = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    facts.joinpath("METADATA").write_text(default if metadata is None else metadata)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def test_a_plug_in_has_the_name_and_version_of_its_package(path: Path) -> None:
    """Name and version are known without an import of the plug-in or its package."""
    pack(path, "foo", "1.2", "mine = no_such_module:Mine")
    found = plugins("collectors", BUILT_IN)
    assert found["mine"] == Plugin("mine", "collectors", "no_such_module:Mine", "foo", "1.2", is_built_in=False)
    assert (found["mine"].noun, found["mine"].origin) == ("collector mine", "package foo 1.2")
    assert found["ours"].is_built_in
    assert [plugins(group, {}) for group in GROUPS if group != "collectors"] == [{}, {}, {}, {}]


def test_a_known_plug_in_is_found_by_its_name(path: Path) -> None:
    """A plug-in, built in or not, is the one that the list has."""
    pack(path, "foo", "1.2", "mine = no_such_module:Mine\nours = no_such_module:Ours")
    known = plugins("collectors", BUILT_IN)
    assert {name: find("collectors", name, BUILT_IN) for name in known} == known


def test_a_built_in_plug_in_is_never_replaced(path: Path) -> None:
    """The other one is known, so that a list can tell."""
    pack(path, "aaa", "1", "ours = json:JSONEncoder")
    assert plugins("collectors", BUILT_IN)["ours"].value == "json:JSONDecoder"
    assert [(one.package, one.is_built_in) for one in offered("collectors", BUILT_IN)["ours"][1:]] == [
        ("aaa", False)
    ]


def test_of_two_packages_the_first_of_the_alphabet_wins(path: Path) -> None:
    """Wherever they are installed: the order of folders says nothing to a user."""
    pack(path, "Zoo", "1", "mine = zoo:Mine")
    pack(path, "bar", "2", "mine = bar:Mine")
    assert [one.package for one in offered("collectors", {})["mine"]] == ["bar", "Zoo"]
    assert plugins("collectors", {})["mine"].package == "bar"


def test_an_entry_point_that_repeats_a_built_in_one_is_left_out(path: Path) -> None:
    """Our own package declares its backends, too."""
    pack(path, "telemetryd", "9", "ours = json:JSONDecoder")
    assert len(offered("collectors", BUILT_IN)["ours"]) == 1


@pytest.mark.parametrize("metadata", ["", "Metadata-Version: 2.1\n"])
def test_a_package_without_a_name_is_said_to_have_none(path: Path, metadata: str) -> None:
    """A plug-in of a package without a name can still be loaded."""
    pack(path, "foo", "1", "mine = json:JSONDecoder", metadata)
    one = plugins("collectors", {})["mine"]
    assert one.origin == "package without a name"
    assert load(one).__name__ == "JSONDecoder"


def test_unreadable_metadata_of_one_package_hides_no_other(path: Path) -> None:
    """Other packages stay visible, whatever one package has written in its file of entry points."""
    pack(path, "bad", "1", "this is no entry point")
    pack(path, "good", "1", "mine = json:JSONDecoder")
    assert list(plugins("collectors", {})) == ["mine"]


@pytest.mark.parametrize(
    ("code", "cause", "remedy"),
    [
        (
            "import no_such_library",
            "ModuleNotFoundError: No module named 'no_such_library'",
            "install what provides",
        ),
        (
            "from json import nothing",
            "ImportError: cannot import name 'nothing'",
            "report it to the authors of foo",
        ),
        ("1 / 0", "ZeroDivisionError: division by zero", "pip uninstall foo"),
        ("raise SystemExit(3)", "SystemExit: 3", "report it"),
        ("raise RuntimeError('a\\x1b[2Jb\\nc')", r"RuntimeError: a\\x1b\[2Jb\\nc", "report it"),
        ("Other = 1", "AttributeError: module 'broken_here' has no attribute 'Mine'", "report it"),
        (None, "ModuleNotFoundError: No module named 'broken_here'", "report it to the authors of foo"),
    ],
)
def test_an_error_names_package_cause_and_remedy(
    path: Path, monkeypatch: pytest.MonkeyPatch, code: str | None, cause: str, remedy: str
) -> None:
    """The error is one line that a terminal can show."""
    monkeypatch.delitem(sys.modules, "broken_here", raising=False)
    pack(path, "foo", "1.2", "mine = broken_here:Mine")
    if code is not None:
        path.joinpath("broken_here.py").write_text(code)
    with pytest.raises(PluginError, match=cause) as error:
        load(plugins("collectors", {})["mine"])
    assert error.value.message.startswith("can't load the collector mine: package foo 1.2 is broken: ")
    assert remedy in error.value.hint
    assert str(error.value).isprintable()
    assert error.value.exit_code == 2


def test_a_value_that_is_none_is_said(path: Path) -> None:
    """An entry point without a valid value is broken.

    A built-in one that can't be loaded is an installation to repair.
    """
    with pytest.raises(PluginError, match=r"package foo 1.2 is broken: AttributeError"):
        load(Plugin("mine", "feeds", "no value", "foo", "1.2", is_built_in=False))
    with pytest.raises(PluginError, match="pip install --force-reinstall telemetryd"):
        load(Plugin("ours", "feeds", "no_such_module:X", "telemetryd", "1", is_built_in=True))
