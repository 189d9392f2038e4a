"""The collector `git` in real repositories."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from telemetry import limits
from telemetry.collectors.collector import NotAvailable, Target
from telemetry.collectors.git import Git, GitError, without_login
from telemetry.testing.collectors import MemoryRun
from telemetry.wire.events import Artifact

_IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *_IDENTITY, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a file, committed."""
    folder = tmp_path / "work"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    folder.joinpath("a.txt").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message=first")
    return folder


def collected(folder: Path, directory: Path | None = None, **options: object) -> MemoryRun:
    run = MemoryRun()
    made = Git(Git.Options(**options), Target(working_directory=folder, directory=directory))  # type: ignore[arg-type]
    made.sample(run)
    made.sample(run)
    made.close()
    return run


def test_a_clean_repository(repository: Path) -> None:
    """The facts of a repository are collected from a folder within it. The second sample adds none."""
    below = repository / "b" / "c"
    below.mkdir(parents=True)
    run = collected(below)
    assert run.all_params == {
        "git.commit": git(repository, "rev-parse", "HEAD"),
        "git.branch": "main",
        "git.changed_files": 0,
    }
    assert len(run.records) == 1


def test_changed_files_are_counted(repository: Path) -> None:
    """Changed, staged and renamed ones, but no untracked ones."""
    repository.joinpath("b.txt").write_text("two\n")
    git(repository, "add", "b.txt")
    repository.joinpath("a.txt").write_text("changed\n")
    repository.joinpath("untracked.txt").write_text("\n")
    assert collected(repository).all_params["git.changed_files"] == 2


def test_a_repository_without_a_commit_and_a_detached_head(repository: Path, tmp_path: Path) -> None:
    """Missing facts, such as a commit or a branch, are left out."""
    git(repository, "checkout", "--quiet", "--detach")
    assert "git.branch" not in collected(repository).all_params
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "--quiet", "--initial-branch=fresh")
    assert collected(empty).all_params == {"git.branch": "fresh", "git.changed_files": 0}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:s3cret@host/a/b.git", "https://host/a/b.git"),
        ("https://t0ken@host:8443/b.git?x=s3cret", "https://host:8443/b.git"),
        ("git@host:a/b.git", "git@host:a/b.git"),
        ("/srv/b.git", "/srv/b.git"),
    ],
)
def test_the_remote_has_no_credentials(repository: Path, url: str, shown: str) -> None:
    """Addresses often hold a token."""
    assert without_login(url) == shown
    git(repository, "remote", "add", "origin", url)
    assert collected(repository).all_params["git.remote"] == shown


def test_the_diff_is_kept_on_request(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The diff is kept in the run directory, for its owner alone. Secrets are masked, and its size has a limit."""
    repository.joinpath("a.txt").write_text('api_key = "abcdef123456"\nchanged\n')
    run = collected(repository, tmp_path, diff=True)
    path = tmp_path / "git.diff"
    text = path.read_text()
    assert "+changed" in text
    assert "abcdef123456" not in text
    assert path.stat().st_mode & 0o777 == 0o600
    [artifact] = [record for record in run.records if isinstance(record, Artifact)]
    assert artifact.name == "git.diff"
    monkeypatch.setattr(limits, "GIT_DIFF_CHARS", 50)
    collected(repository, tmp_path, diff=True)
    assert path.read_text().endswith("characters more\n")


def test_a_clean_repository_has_no_diff(repository: Path, tmp_path: Path) -> None:
    """A clean repository has no diff, so no file is made. Without the request no file is made either."""
    collected(repository, tmp_path, diff=True)
    repository.joinpath("a.txt").write_text("changed\n")
    collected(repository, tmp_path)
    assert not tmp_path.joinpath("git.diff").exists()


def test_no_repository_and_no_git_are_not_available(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason says which."""
    with pytest.raises(NotAvailable, match="is in no git repository"):
        Git(Git.Options(), Target(working_directory=tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotAvailable, match="git is not installed"):
        Git(Git.Options(), Target(working_directory=repository))


def test_a_repository_that_git_refuses_is_not_available(tmp_path: Path) -> None:
    """A container has half of it, or it belongs to another user: a default collector is then silent."""
    tmp_path.joinpath("half").mkdir()
    tmp_path.joinpath("half/.git").write_text("gitdir: /no/such/place\n")
    with pytest.raises(NotAvailable, match="failed: fatal: not a git repository"):
        Git(Git.Options(), Target(working_directory=tmp_path / "half"))


@pytest.mark.parametrize(
    ("script", "timeout", "words"),
    [
        ("exec sleep 60", 0.1, "takes longer than 0.1 s"),
        (
            'case "$*" in *rev-parse*) ;; *) echo "fatal: broken" >&2; exit 128 ;; esac',
            20.0,
            "git status failed: fatal: broken",
        ),
    ],
)
def test_a_git_that_fails_or_hangs_is_an_error(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, script: str, timeout: float, words: str
) -> None:
    """The failure of git is an error, which the process of the collectors shows once."""
    tools = tmp_path / "tools"
    tools.mkdir()
    program = tools / "git"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    with pytest.raises(GitError, match=words):
        collected(repository, timeout=timeout)
