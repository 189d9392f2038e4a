"""Packages of other people, and what `telemetry plugins` and the flags say about them."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from tests.process.conftest import Ground

FEED = """
class Mine:
    "A feed of mine."
    topics = (b"",)
    addresses = ()
    def __init__(self, run, options): ...
"""
CAPTURE = """
MODULES = ("library_of_theirs",)

def install():
    import library_of_theirs
    import telemetry
    original = library_of_theirs.compute
    def compute(value):
        result = original(value)
        telemetry.mark(f"computed {result}")
        return result
    library_of_theirs.compute = compute
"""
USES = "import library_of_theirs\nprint(library_of_theirs.compute(20))\n"
THREADS = """
import threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
print("hello from a plug-in", flush=True)
from good import Mine
"""


class Shelf:
    """A folder of packages, as an installer leaves them."""

    def __init__(self, ground: Ground) -> None:
        self.folder = ground.folder / "packages"
        self.folder.mkdir()
        ground.environ["PYTHONPATH"] = str(self.folder)

    def add(self, package: str, group: str, point: str, version: str = "1.2", **modules: str) -> None:
        facts = self.folder / f"{package.replace('-', '_')}-{version}.dist-info"
        facts.mkdir(exist_ok=True)
        facts.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        facts.joinpath("entry_points.txt").write_text(f"[telemetry.{group}]\n{point}\n")
        for name, text in modules.items():
            self.folder.joinpath(f"{name}.py").write_text(text)


@pytest.fixture
def shelf(ground: Ground) -> Shelf:
    return Shelf(ground)


def by_name(ground: Ground, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    code, out, err = ground.run("plugins", *words, "--json", "--timeout", "60")
    assert out, err
    return code, {f"{one['group']}:{one['name']}:{one['package']}": one for one in json.loads(out)}


def test_plug_ins_of_all_packages_are_listed(ground: Ground, shelf: Shelf) -> None:
    """The list has each plug-in, built-in ones too, with its package, its description and its state."""
    shelf.add("good-feeds", "feeds", "mine = good:Mine", good=FEED)
    shelf.add("greedy", "backends", "jsonl = good:Mine")
    shelf.add("rival", "feeds", "mine = good:Other")
    shelf.add("threads", "feeds", "threads = threads:Mine", threads=THREADS)
    code, found = by_name(ground, "list")
    assert code == 0
    mine = found["feeds:mine:good-feeds"]
    assert (mine["version"], mine["built_in"], mine["state"]) == ("1.2", False, "ready")
    assert (mine["summary"], mine["value"]) == ("A feed of mine.", "good:Mine")
    ours = found["backends:jsonl:telemetryd"]
    assert (ours["built_in"], ours["state"], ours["options"][0]["name"]) == (True, "ready", "path")
    assert found["feeds:threads:threads"]["state"] == "ready"
    greedy, rival = found["backends:jsonl:greedy"], found["feeds:mine:rival"]
    assert (greedy["state"], greedy["problem"]) == ("hidden", "not used: a built-in one has the same name")
    assert (rival["state"], rival["problem"]) == ("hidden", "not used: package good-feeds 1.2 has the same name")
    code, out, _ = ground.run("plugins", "list", "--full")
    assert code == 0
    assert "good-feeds 1.2" in out
    assert "    A feed of mine.\n" in out
    assert "    path: str = ''\n" in out
    code, out, err = ground.run("plugins", "check", "mine", "jsonl")
    assert (code, err) == (0, "")
    assert [line.split()[:2] for line in out.splitlines() if line[0] != " "] == [
        ["GROUP", "NAME"],
        ["backends", "jsonl"],
        ["backends", "jsonl"],
        ["feeds", "mine"],
        ["feeds", "mine"],
    ]


def test_a_broken_plug_in_fails_the_check(ground: Ground, shelf: Shelf) -> None:
    """Each error has the package, the cause and the remedy, and one plug-in harms no other."""
    shelf.add("broken", "feeds", "broken = broken:Mine", broken="from json import nothing\n")
    shelf.add("needy", "feeds", "needy = needy:Mine", needy="import no_such_library\n")
    shelf.add("crash", "feeds", "crash = crash:Mine", crash="import os\nos.kill(os.getpid(), 11)\n")
    shelf.add("leaver", "feeds", "leaver = leaver:Mine", leaver="import os\nos._exit(7)\n")
    shelf.add("odd", "feeds", "odd = odd:Mine", odd="class Mine: ...\n")
    shelf.add("half", "backends", "half = half:Mine", half="class Mine: ...\n")
    shelf.add("mute", "integrations", "mute = mute", mute="def install(): ...\n")
    shelf.add("good", "feeds", "mine = good:Mine", good=FEED)
    code, found = by_name(ground, "check")
    assert code == 1
    theirs = {key: one for key, one in found.items() if not one["built_in"]}
    assert theirs.pop("feeds:mine:good")["state"] == "ready"
    problems = {one["name"]: one["problem"] for one in theirs.values()}
    assert {one["state"] for one in theirs.values()} == {"broken"}
    assert problems["broken"].startswith(
        "can't load the feed broken: package broken 1.2 is broken: ImportError: cannot import name 'nothing'"
    )
    assert problems["crash"].endswith("its import ended the process with SIGSEGV")
    assert problems["leaver"].endswith("its import ended the process with exit code 7")
    assert problems["odd"].endswith("it lacks topics, addresses")
    assert "it lacks Options, takes" in problems["half"]
    assert "MODULES" in problems["mute"]
    remedies = {one["name"]: one["remedy"] for one in theirs.values()}
    assert remedies.pop("needy") == (
        "install what provides the module no_such_library, or uninstall the package: pip uninstall needy"
    )
    assert remedies["broken"] == "report it to the authors of broken, or uninstall it: pip uninstall broken"
    code, out, err = ground.run("plugins", "check", "mine", "leaver")
    assert (code, err) == (1, "telemetry: 1 plug-in can't be used\n")
    assert "    report it to the authors of leaver, or uninstall it: pip uninstall leaver\n" in out
    assert ground.run("plugins", "check", "mine")[0] == 0
    code, _, err = ground.run("plugins", "check", "mien")
    assert (code, err) == (2, "telemetry: no plug-in is named 'mien' (did you mean mine?)\n")


def test_a_plug_in_whose_import_hangs_is_ended(ground: Ground, shelf: Shelf) -> None:
    """A plug-in whose import hangs is ended after the time that the user gives.

    The processes that it started are ended too.
    """
    text = (
        "import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    )
    shelf.add("sleepy", "feeds", "sleepy = sleepy:Mine", sleepy=text + "time.sleep(600)\n")
    code, out, _ = ground.run("plugins", "check", "sleepy", "--timeout", "3")
    assert code == 1
    assert "package sleepy 1.2: its import takes more than 3 seconds\n" in out
    assert "if it is only slow, give it longer with --timeout SECONDS" in out


@pytest.mark.parametrize(("flag", "group"), [("--feed", "feeds"), ("--capture", "integrations")])
def test_a_flag_that_names_a_broken_plug_in_says_what_to_do(
    ground: Ground, shelf: Shelf, flag: str, group: str
) -> None:
    """A flag that names a broken plug-in says what to do before the command is started."""
    shelf.add("broken", group, "broken = broken", broken="from json import nothing\n")
    code, out, err = ground.run("run", flag, "broken", "--", "echo", "started")
    assert (code, out) == (2, "")
    assert "package broken 1.2 is broken: ImportError: cannot import name 'nothing'" in err
    assert "report it to the authors of broken, or uninstall it: pip uninstall broken" in err


def test_a_backend_that_is_broken_says_what_to_do(ground: Ground, shelf: Shelf) -> None:
    """The writer of a broken backend reports what to do, and the command runs."""
    shelf.add("broken", "backends", "broken = broken:Mine", broken="from json import nothing\n")
    code, out, err = ground.run("run", "--to", "broken", "--", "echo", "started")
    assert (code, out) == (0, "started\n")
    assert "package broken 1.2 is broken: ImportError: cannot import name 'nothing'" in err
    assert "report it to the authors of broken" in err


def test_a_capture_of_another_package_records(ground: Ground, shelf: Shelf) -> None:
    """A capture is installed when the program imports the library, and does nothing without the flag."""
    library = "def compute(value):\n    return value * 2\n"
    shelf.add("their-capture", "integrations", "theirs = their_capture", their_capture=CAPTURE)
    shelf.folder.joinpath("library_of_theirs.py").write_text(library)
    program = ground.program("uses.py", USES)
    code, out, err = ground.run("run", "--strict", "--capture", "theirs,logging", "--", sys.executable, program)
    assert (code, out) == (0, "40\n"), err
    marks = [mark["text"] for mark in ground.final()["marks"]]
    assert "computed 40" in marks
    code, out, _ = ground.run("capture", "list")
    assert "theirs        from package their-capture 1.2\n" in out
    code, out, err = ground.run("run", "--capture", "logging", "--", sys.executable, program)
    assert (code, out) == (0, "40\n"), err
    assert "computed 40" not in [mark["text"] for mark in ground.final()["marks"]]


def test_a_capture_of_another_package_that_fails_harms_no_program(ground: Ground, shelf: Shelf) -> None:
    """The reason is printed. With --strict, the exit code reports the failure, too."""
    code = 'MODULES = ("library_of_theirs",)\ndef install():\n    raise ValueError("another release")\n'
    shelf.add("their-capture", "integrations", "theirs = their_capture", their_capture=code)
    shelf.folder.joinpath("library_of_theirs.py").write_text("def compute(value):\n    return value\n")
    program = ground.program("uses.py", USES)
    exit_code, out, err = ground.run("run", "--strict", "--capture", "theirs", "--", sys.executable, program)
    assert (exit_code, out) == (6, "20\n")
    assert "can't load the capture theirs (their_capture): ValueError: another release" in err
