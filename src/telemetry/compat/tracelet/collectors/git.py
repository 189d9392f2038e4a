"""State of a git repository, read by this package's own collector of git."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from telemetry.collectors.collector import NotAvailable, Target
from telemetry.collectors.git import Git, GitError
from telemetry.compat.tracelet.core.interfaces import CollectorInterface
from telemetry.redaction import mask_secrets

_SHARED: Final = ("branch", "commit_hash", "commit_datetime", "is_dirty", "remotes")
"""What an experiment records by itself. The diff, the author and the message stay out of it."""


class GitCollector(CollectorInterface):
    """A reader of branch, commit, changes and remotes. A detached head has the branch `HEAD`."""

    def __init__(self, repo_path: str | None = None) -> None:
        self.repo_path = repo_path or os.getcwd()
        self._git: Git | None = None

    def initialize(self) -> None:
        """Find out whether the path is in a repository."""
        try:
            self._git = Git(Git.Options(timeout=10.0), Target(working_directory=Path(self.repo_path)))
        except NotAvailable:
            self._git = None

    def collect(self) -> dict[str, Any]:
        """Return the state of the repository."""
        head = self._output("log", "-1", "--format=%H%x00%B%x00%an <%ae>%x00%cI")
        if not head:
            why = "the repository has no commit" if self._git is not None else "not a git repository"
            return {"git_available": self._git is not None, "error": why}
        commit, message, author, date = head.split("\0")
        remotes: dict[str, list[str]] = {}
        for line in self._output("remote", "-v").splitlines():
            name, url, *_ = line.split()
            remotes[name] = sorted({*remotes.get(name, []), *mask_secrets([url])})
        return {
            "git_available": True,
            "branch": self._output("rev-parse", "--abbrev-ref", "HEAD"),
            "commit_hash": commit,
            "commit_message": message.strip(),
            "commit_author": author,
            "commit_datetime": date.strip(),
            "is_dirty": bool(self._output("status", "--porcelain", "--untracked-files=no")),
            "untracked_files": self._output("ls-files", "--others", "--exclude-standard").splitlines(),
            "diff": self._output("diff") or None,
            "remotes": remotes,
        }

    def shared(self) -> dict[str, Any]:
        """Return what an experiment records by itself, as settings."""
        state = self.collect()
        if "remotes" in state:
            state["remotes"] = ", ".join(url for urls in state["remotes"].values() for url in urls)
        return {f"git.{name}": state[name] for name in _SHARED if name in state}

    def _output(self, *arguments: str) -> str:
        """Return the output of a git command. It is empty if the command fails."""
        try:
            return self._git.call(*arguments).decode(errors="replace").strip("\n") if self._git is not None else ""
        except GitError:
            return ""
