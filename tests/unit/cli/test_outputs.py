"""Tests of where results are written."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from telemetry.cli.outputs import FORMATS, Output, add_output_arguments, make_folder, outputs, write
from telemetry.errors import RunDirectoryError, UsageError
from telemetry.report import FORMATS as RENDERED
from telemetry.report import TABLE


def test_every_form_has_a_suffix_of_its_own() -> None:
    """Each form that can be rendered can be asked for.

    The history log and the forms of other tools are made elsewhere.
    """
    assert set(FORMATS) == {*RENDERED, "hlog", "endpoints"}
    suffixes = [suffix for format in TABLE.values() for suffix in format.suffixes]
    assert len(set(suffixes)) == len(suffixes)


@pytest.mark.parametrize(
    ("forms", "files", "wanted"),
    [
        ([], [], [Output("text", None)]),
        (["html"], [], [Output("html", None)]),
        ([], ["a.csv", "b"], [Output("csv", Path("a.csv")), Output("text", Path("b"))]),
        (["json", "md"], ["a", "b.txt"], [Output("json", Path("a")), Output("md", Path("b.txt"))]),
        (
            ["json", "junit"],
            ["out/"],
            [Output("json", Path("out/report.json"), True), Output("junit", Path("out/report.xml"), True)],
        ),
    ],
)
def test_what_is_asked_for(forms: list[str], files: list[str], wanted: list[Output]) -> None:
    """One form on stdout, a form a file, by suffix or by name, or all in a folder."""
    assert outputs(forms, files) == wanted


def test_a_page_needs_no_suffix_and_no_format() -> None:
    """`--html FILE` stands beside other files, in their order, and takes no `--format`."""
    parser = argparse.ArgumentParser()
    add_output_arguments(parser)
    args = parser.parse_args(["--html", "page", "-o", "b", "--format", "json"])
    assert outputs(args.formats, args.files) == [Output("html", Path("page")), Output("json", Path("b"))]
    assert outputs([], parser.parse_args(["--html", "a.html"]).files) == [Output("html", Path("a.html"))]
    bare = argparse.ArgumentParser()
    add_output_arguments(bare, ["text"])
    with pytest.raises(SystemExit):
        bare.parse_args(["--html", "a"])


def test_a_folder_that_is_there_needs_no_slash(tmp_path: Path) -> None:
    """An existing folder needs no slash, since it can't be a file."""
    assert outputs(["md"], [str(tmp_path)]) == [Output("md", tmp_path / "report.md", True)]


@pytest.mark.parametrize(
    ("forms", "files", "said"),
    [
        (["json", "md"], [], "several formats need several files"),
        (["json"], ["a", "b"], "got 1 format but 2 files"),
        ([], ["a.doc"], "the suffix .doc of a.doc does not select a format"),
        ([], ["out/"], "give the formats"),
        (["json", "md"], ["out/", "a"], "out/ is a folder"),
    ],
)
def test_what_can_not_be_meant(forms: list[str], files: list[str], said: str) -> None:
    """A contradictory choice of formats and files is an error, not a guess. The hint says what to write."""
    with pytest.raises(UsageError, match=said) as caught:
        outputs(forms, files)
    assert caught.value.hint


def test_files_and_folders_that_can_not_be_made(tmp_path: Path) -> None:
    """One line that says which, and why."""
    (tmp_path / "file").touch()
    with pytest.raises(RunDirectoryError, match=r"can't write .*missing/a: No such file"):
        write("x", tmp_path / "missing" / "a")
    with pytest.raises(RunDirectoryError, match=r"can't create .*file/deep: Not a directory"):
        make_folder(tmp_path / "file" / "deep")
    make_folder(tmp_path / "a" / "b")
    write("x\n", tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").read_text() == "x\n"
