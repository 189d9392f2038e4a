"""A collector of somebody else: the files of the page, installed by pip, with its contract and a real run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from telemetry.store.final_snapshot import read_final
from telemetry.store.run_directory import RunDirectory

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
PAGE = (Path(__file__).parents[2] / "docs" / "collectors" / "WRITING.md").read_text()
FILES = dict(re.findall(r"^```\w+ title=\"([^\"]+)\"\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that sees the packages of this one, in which the template is installed."""
    home, project = tmp_path_factory.mktemp("environment"), tmp_path_factory.mktemp("project")
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    [packages] = home.glob("lib/python3*/site-packages")
    paths = [sysconfig.get_path("purelib"), *(path for path in sys.path if path.endswith("src"))]
    packages.joinpath("here.pth").write_text("\n".join(paths))
    for name, text in FILES.items():
        project.joinpath(name).write_text(text)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "--disable-pip-version-check",
        "install",
        "--quiet",
    ]
    done(*pip, "--no-build-isolation", "--no-deps", "--editable", ".", cwd=project)
    return python


def done(*command: str, cwd: Path, code: int = 0) -> str:
    """Output of a command that ends with this code."""
    own = {name: text for name, text in os.environ.items() if not name.startswith("TELEMETRY_")}
    ended = subprocess.run(
        command,
        cwd=cwd,
        env=own | {"XDG_CONFIG_HOME": str(cwd)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == code, f"{command}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout + ended.stderr


def pytest_of(python: Path, folder: Path, *words: str, code: int = 0) -> str:
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", "."]
    return done(*command, f"--basetemp={folder / 'tmp'}", *words, cwd=folder, code=code)


def test_the_page_has_all_files() -> None:
    """Three of them make a package."""
    assert sorted(FILES) == ["folder_collector.py", "pyproject.toml", "test_folder.py"]
    assert PAGE.count("pip install -e .") == 1


def test_a_run_has_the_figures_of_the_template(python: Path, tmp_path: Path) -> None:
    """Installed as the page says, with an option, beside a second one of its kind."""
    work = tmp_path / "work"
    (work / "data").mkdir(parents=True)
    (work / "data" / "a.bin").write_bytes(b"x" * 1_000)
    words = ["run", "--dir", str(tmp_path / "runs"), "--quiet", "--collect", "folder:path=data"]
    words += ["--collect", "folder:path=.,as=work"]
    done(str(python), "-m", "telemetry", *words, "--", "sleep", "2", cwd=work)
    snapshot = read_final(RunDirectory.open(tmp_path / "runs" / "latest").final)
    values = {(stat.name, stat.labels.get("collector")): (stat.value, stat.unit) for stat in snapshot.gauges}
    assert values["folder.files", None] == (1, "")
    assert values["folder.size", None] == (1_000, "B")
    assert values["folder.files", "work"] == (0, "")
    assert snapshot.completeness == "complete"


def test_a_folder_that_the_command_makes_later_is_recorded(python: Path, tmp_path: Path) -> None:
    """A thing that does not exist yet is no error, even with --strict."""
    words = ["run", "--dir", str(tmp_path / "runs"), "--quiet", "--strict", "--collect", "folder:path=later"]
    done(str(python), "-m", "telemetry", *words, "--", "sh", "-c", "sleep 1; mkdir later; sleep 2", cwd=tmp_path)
    snapshot = read_final(RunDirectory.open(tmp_path / "runs" / "latest").final)
    assert [stat.value for stat in snapshot.gauges if stat.name == "folder.files"] == [0]


def test_a_wrong_option_is_refused_before_the_command_starts(python: Path, tmp_path: Path) -> None:
    """A wrong option is refused as for a built-in collector. The message names the collector once."""
    words = ["run", "--dir", str(tmp_path / "runs"), "--collect", "folder:nosuch=1", "--", "touch", "started"]
    said = done(str(python), "-m", "telemetry", *words, cwd=tmp_path, code=2)
    assert "folder has no option 'nosuch'" in said
    assert said.count("folder") == 1
    assert not (tmp_path / "started").exists()


def test_the_template_passes_the_contract(python: Path, tmp_path: Path) -> None:
    """The template passes the contract with the three lines of its test file."""
    tmp_path.joinpath("test_folder.py").write_text(FILES["test_folder.py"])
    assert "8 passed" in pytest_of(python, tmp_path, "test_folder.py")


@pytest.mark.parametrize(
    ("good", "bad", "test", "words"),
    [
        ("sum(sizes))", "float('nan'))", "samples_are_recorded", "not finite: folder.size"),
        ("sum(sizes))", "run.gauge('folder.files', 'x'))", "samples_are_recorded", "already defined with unit"),
        ("interval_s = 2.0", "interval_s = float('inf')", "samples_are_recorded", "interval_s is inf"),
        (
            "with os.scandir(self.path) as entries:",
            "entries = []\n            return\n            if 1:",
            "samples_are",
            "nothing was recorded",
        ),
        (
            "    def close(self):\n        pass",
            "    def close(self):\n        self.left = open('/dev/null')",
            "close_leaves",
            "'files'",
        ),
        ("import os\n", "import os\n\nimport numpy\n", "importing", "loads numpy"),
        ("self.labels = target.labels", "self.labels = {}", "have_the_labels", "target.labels to folder.files"),
        ('raise NotAvailable("there is no working directory")', "pass", "real_run", ""),
    ],
    ids=["NaN", "unit", "interval", "nothing", "leak", "import", "labels", "good"],
)
def test_a_collector_that_breaks_the_contract_fails(
    python: Path, tmp_path: Path, *, good: str, bad: str, test: str, words: str
) -> None:
    """Each with the test that is about it; the last change breaks nothing."""
    text = FILES["folder_collector.py"].replace(good, bad, 1)
    assert text != FILES["folder_collector.py"]
    tmp_path.joinpath("folder_collector.py").write_text(text)
    tmp_path.joinpath("conftest.py").write_text("import sys; sys.path.insert(0, '.')\n")
    tmp_path.joinpath("test_folder.py").write_text(FILES["test_folder.py"])
    said = pytest_of(python, tmp_path, "test_folder.py", "-k", test, code=1 if words else 0)
    assert words in said, said
