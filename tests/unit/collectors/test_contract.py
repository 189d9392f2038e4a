"""The built-in collectors by the contract that third parties use."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.unit.collectors.scrape.servers import PageServer, page_server

from telemetry.testing.collectors import CollectorContract

PAGE = '# TYPE depth gauge\ndepth{queue="a"} 3\n# TYPE hits_total counter\nhits_total 7\n'

pytest.mark.slow(CollectorContract.test_a_real_run_has_its_figures)


class TestScrape(CollectorContract):
    """A server of its own, which goes away."""

    server: PageServer
    fills_in = 0.3

    @pytest.fixture(autouse=True)
    def with_server(self) -> Iterator[None]:
        with page_server(PAGE) as self.server:
            yield

    def text(self, tmp_path: Path) -> str:
        return f"scrape:url={self.server.url},every=0.2,timeout=5"

    @contextmanager
    def surroundings(self, tmp_path: Path) -> Iterator[None]:
        try:
            yield
        finally:
            if not self.server.is_running:
                self.server.start()

    def take_away(self) -> None:
        self.server.stop()


class TestGit(CollectorContract):
    """A repository with one commit."""

    collect = "git"

    def working_directory(self, tmp_path: Path) -> Path:
        folder = tmp_path / "work"
        if not folder.exists():
            folder.mkdir()
            self._git(folder, "init", "--quiet", "--initial-branch=main")
            self._git(folder, "commit", "--quiet", "--allow-empty", "--message=first")
        return folder

    @staticmethod
    def _git(folder: Path, *words: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *identity, *words], cwd=folder, check=True)


class TestEnvironment(CollectorContract):
    """The machine and the interpreter of these tests."""

    collect = "environment"


class TestHost(CollectorContract):
    """The machine of these tests."""

    collect = "host"
    fills_in = 0.3


class TestGpu(CollectorContract):
    """A machine without a GPU skips what needs one."""

    collect = "gpu"
    may_be_absent = True
