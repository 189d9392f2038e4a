"""Disks that fill up, refuse, or turn read-only: the numbers stay right, and the result says what happened."""

from __future__ import annotations

import errno
import json
import os
import random
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from telemetry.client import native_recorders
from telemetry.store.ring_file import RingUnreadable, open_ring

RATE = 50_000
FLUSHED = RATE // 10
REQUESTS = """
import os, time, telemetry
run = telemetry.start("job")
requests = run.requests("llm")
while not os.path.exists("go"):
    time.sleep(0.01)
for number in range(1_000):
    requests.issue().complete(output_tokens=1)
run.finish()
"""
SPARE = "TELEMETRY_RUN__FALLBACK_DIRS"


@pytest.fixture
def mount() -> Iterator[Callable[..., None]]:
    """`mount(path, *words)` mounts something there for the time of the test; it takes root, and a kernel that lets
    root mount."""
    mounted: set[Path] = set()

    def do(path: Path, *words: str) -> None:
        path.mkdir(exist_ok=True)
        done = subprocess.run(["mount", *words, str(path)], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"only root may mount, and not in every container: {done.stderr.strip()}")
        mounted.add(path)

    yield do
    for path in mounted:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def fill(folder: Path) -> None:
    """Takes what is left of a disk, to the last byte."""
    with (folder / "somebody-else").open("wb", buffering=0) as file, suppress(OSError):
        for size in (1 << 16, 1 << 8, 1):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))


def journal_bytes(run: Path) -> int:
    return sum(path.stat().st_size for path in (run / "journal").iterdir())


def final_of(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text()))


def check_counts(faults: Any, final: dict[str, Any], sender: Any) -> None:
    """All that was sent is in the numbers."""
    faults.check_books(final)
    assert faults.first_values(final, sender.who) == sender.sent
    assert (final["state"], final["completeness"]) == ("COMPLETE", "complete")
    assert final["accounting"]["dropped"] == final["accounting"]["dropped_by_producer"] == {}


def test_a_disk_that_fills_up_costs_exactness_and_no_count(
    ground: Any, crew: Any, faults: Any, chance: random.Random, mount: Any
) -> None:
    """ENOSPC for the journal, the history and the final file: the result is in the fallback directory, the report
    says where and which files could not be written."""
    runs, spare = ground.folder / "runs", ground.folder / "spare"
    mount(runs, "-t", "tmpfs", "-o", f"size={chance.randint(300, 1_500)}k", "none")
    command, sender = crew.words("job", rate=RATE)
    wrapper = ground.telemetry("run", "--name", "job", "--", *command, environ={SPARE: str(spare)})
    crew.wait_until(lambda: sender.sent, 30.0, "the command sends")
    full_journal = f"can't write the journal: {os.strerror(errno.ENOSPC)}"
    (live,) = ground.live()
    crew.wait_until(lambda: full_journal in faults.status(live["endpoint"]).warnings, 30.0, "a full disk")
    fill(runs)
    full_history = f"can't write the history: {os.strerror(errno.ENOSPC)}"
    crew.wait_until(lambda: full_history in faults.status(live["endpoint"]).warnings, 30.0, "a fuller disk")
    crew.progress(sender, FLUSHED)
    sender.end()
    _, said = wrapper.communicate(timeout=60)
    (file,) = spare.iterdir()
    final = final_of(file)
    check_counts(faults, final, sender)
    assert (final["exact"], final["exact_reason"]) == (False, full_journal)
    assert not (runs / "latest" / "final_snapshot.json").exists()
    assert str(file) in " ".join(said.split())


def test_a_journal_that_may_not_grow_costs_exactness_and_no_count(
    ground: Any, crew: Any, faults: Any, chance: random.Random
) -> None:
    """EFBIG at a random size: the final file is at home, has all counts, and says why its percentiles are not
    exact."""
    aggregator, endpoint = ground.serve()
    sender = crew.send("job", endpoint, rate=RATE)
    (live,) = ground.live()
    moment = chance.randint(100_000, 1_000_000)
    crew.wait_until(lambda: journal_bytes(Path(live["dir"])) > moment, 30.0, "a journal")
    hard = resource.prlimit(aggregator.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(aggregator.pid, resource.RLIMIT_FSIZE, (moment, hard))
    too_large = f"can't write the journal: {os.strerror(errno.EFBIG)}"
    crew.wait_until(lambda: too_large in faults.status(endpoint).warnings, 30.0, "a journal that failed")
    crew.progress(sender, FLUSHED)
    sender.end()
    sender.done()
    faults.stop(endpoint, aggregator)
    final = ground.final()
    check_counts(faults, final, sender)
    assert (final["exact"], final["exact_reason"]) == (False, too_large)


def test_a_request_log_that_may_not_be_written_costs_no_count(ground: Any, crew: Any) -> None:
    """A run whose log folder can't be made counts all requests.

    The result is exact and complete, and a warning says why the log lacks the requests.
    """
    program = ground.program("asking.py", REQUESTS)
    wrapper = ground.telemetry("run", "--name", "job", "--", sys.executable, program)
    crew.wait_until(ground.live, 30.0, "a run")
    (live,) = ground.live()
    Path(live["dir"], "requests").touch()
    (ground.folder / "go").touch()
    _, said = wrapper.communicate(timeout=60)
    assert wrapper.returncode == 0, said
    final = ground.final()
    words = {stat["name"]: stat["value"] for stat in final["counters"]}
    assert (words["llm.issued"], words["llm.completed"]) == (1_000, 1_000)
    assert (final["state"], final["completeness"], final["exact"]) == ("COMPLETE", "complete", True)
    (warning,) = [line for line in final["warnings"] if "request log" in line]
    assert warning.startswith(f"can't write the request log: {os.strerror(errno.EEXIST)}")


def test_a_result_that_no_disk_takes_is_still_reported(
    ground: Any, crew: Any, faults: Any, chance: random.Random
) -> None:
    """The report has all counts from the published snapshot, and says so. Not one byte can be written any more."""
    command, sender = crew.words("job", rate=RATE)
    wrapper = ground.telemetry("run", "--name", "job", "--", *command)
    crew.wait_until(lambda: sender.sent, 30.0, "the command sends")
    (live,) = ground.live()
    crew.progress(sender, chance.randint(1, RATE))
    hard = resource.prlimit(live["pid"], resource.RLIMIT_FSIZE)[1]
    resource.prlimit(live["pid"], resource.RLIMIT_FSIZE, (0, hard))
    crew.progress(sender, FLUSHED)
    sender.end()
    _, said = wrapper.communicate(timeout=60)
    assert wrapper.returncode == 0
    assert "can't write the final file" in said
    assert f"{sender.sent:,} of {sender.sent:,}" in said
    assert not list(Path(live["dir"]).glob("final*"))


def make_unwritable(path: Path, mount: Callable[..., None]) -> None:
    """Make a path unwritable for the owner. Root needs a mount, because permissions do not stop root."""
    if os.geteuid():
        path.chmod(0o555)
    else:
        mount(path, "--bind", str(path))
        mount(path, "-o", "remount,bind,ro")


def test_a_run_directory_that_turns_unwritable_does_not_cost_the_result(
    ground: Any, crew: Any, faults: Any, chance: random.Random, mount: Any
) -> None:
    """Open files go on, so the result is exact. The result is in the fallback directory, and says so."""
    spare = ground.folder / "spare"
    aggregator, endpoint = ground.serve(environ={SPARE: str(spare)})
    sender = crew.send("job", endpoint, rate=RATE)
    (live,) = ground.live()
    crew.progress(sender, chance.randint(1, RATE // 2))
    make_unwritable(Path(live["dir"]), mount)
    try:
        crew.progress(sender, chance.randint(1, RATE // 2))
        sender.end()
        sender.done()
        faults.stop(endpoint, aggregator)
    finally:
        if os.geteuid():
            Path(live["dir"]).chmod(0o755)
    (file,) = spare.iterdir()
    final = final_of(file)
    check_counts(faults, final, sender)
    assert final["exact"]
    assert any(str(file) in warning for warning in final["warnings"])


def test_a_ring_without_room_goes_on_in_private_memory(
    native: None, ground: Any, mount: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shared memory is small in many containers, and others need it: some is left to them. No event is lost."""
    shared = ground.folder / "shared"
    mount(shared, "-t", "tmpfs", "-o", "size=36m,mode=0700", "none")
    monkeypatch.setattr(native_recorders, "ring_directory", lambda: shared)
    recorders = native_recorders.build_recorders()
    path = recorders.memory.open("p", 1_000_000, [])
    assert path == str(shared / "p.ring")
    recorders.install(recorders.buffer.extend)
    record = recorders.record(0.0)
    record("no number")  # type: ignore[arg-type]
    for number in range(300_000):
        record(number, at_ns=number)
    buffer = recorders.buffer
    assert isinstance(buffer, native_recorders.RingBuffer)
    assert not buffer.is_file
    assert list(buffer)[1::3] == list(range(300_000))
    assert (recorders.refused.total, recorders.buffer_full.total) == (1, 0)
    with pytest.raises(RingUnreadable), open_ring(path, "p"):
        pass
    second = native_recorders.build_recorders()
    fill(shared)
    assert second.memory.open("q", 1_000_000, []) == ""
    second.memory.remove()
    recorders.memory.remove()
