"""The processes of a command: which belong to it, and what they use together."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import psutil
import pytest
from tests.unit.collectors.conftest import MadeMachine

from telemetry.collectors.host.tree import CommandTree

PAGE = os.sysconf("SC_PAGE_SIZE")
HZ = os.sysconf("SC_CLK_TCK")
CHILD = "import time\nx = b'x' * (30 << 20)\nprint(1, flush=True)\ntime.sleep(600)"
FAMILY = f"""
import subprocess, sys, threading, time
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], stdout=subprocess.PIPE)
child.stdout.read(1)
command = ["sh", "-c", "sleep 600 >/dev/null & echo $!"]
orphan = subprocess.run(command, stdout=subprocess.PIPE, start_new_session=True)
print(child.pid, orphan.stdout.decode().strip(), flush=True)
threading.Thread(target=sys.stdin.read).start()
while child.poll() is None:
    sum(range(1000))
"""


def test_descendants_belong_to_the_command_and_others_do_not(made_machine: MadeMachine) -> None:
    """Children of children too, in whatever order the system lists them."""
    made_machine.process(10, parent=1, pages=5, threads=3)
    made_machine.process(9, parent=11, pages=2)
    made_machine.process(11, parent=10, name="sh", pages=1)
    made_machine.process(12, parent=1, name="other", pages=1_000)
    tree = CommandTree(10, made_machine.root).read(1.0, now_ticks=200)
    assert (tree.processes, tree.threads, tree.memory) == (3, 5, 8 * PAGE)
    assert {name: use.memory for name, use in tree.by_name.items()} == {"python": 7 * PAGE, "sh": PAGE}


def test_a_process_stays_when_its_parent_has_ended(made_machine: MadeMachine) -> None:
    """The system gives it another parent. One that was never seen with its parent has the group of that parent."""
    made_machine.process(10, parent=1)
    made_machine.process(11, parent=10)
    made_machine.process(12, parent=11)
    tree = CommandTree(10, made_machine.root)
    tree.read(1.0, now_ticks=200)
    made_machine.end(11)
    made_machine.process(12, parent=1)
    made_machine.process(13, parent=1, group=11, session=1, started=210)
    made_machine.process(14, parent=1, group=7, session=7, started=210)
    assert tree.read(1.0, now_ticks=300).processes == 3


def test_a_new_process_with_the_id_of_an_ended_one_is_another(made_machine: MadeMachine) -> None:
    """The start time distinguishes a new process from an ended one with the same id."""
    made_machine.process(10, parent=1)
    made_machine.process(11, parent=10)
    tree = CommandTree(10, made_machine.root)
    tree.read(1.0, now_ticks=200)
    made_machine.end(11)
    made_machine.process(11, parent=1, started=250)
    assert tree.read(1.0, now_ticks=300).processes == 1


def test_a_group_is_forgotten_when_it_has_ended(made_machine: MadeMachine) -> None:
    """A command may start a million processes: each id comes back, as that of a group of somebody else."""
    made_machine.process(10, parent=1)
    made_machine.process(11, parent=10, group=11)
    made_machine.process(12, parent=11, group=11)
    tree = CommandTree(10, made_machine.root)
    tree.read(1.0, now_ticks=200)
    made_machine.end(11)
    made_machine.process(12, parent=1, group=11)
    tree.read(1.0, now_ticks=300)
    made_machine.process(13, parent=1, group=11, started=310)
    assert tree.read(1.0, now_ticks=400).processes == 3
    made_machine.end(12)
    made_machine.end(13)
    tree.read(1.0, now_ticks=500)
    made_machine.process(11, parent=1, name="bash", group=11, started=510)
    assert tree.read(1.0, now_ticks=600).processes == 1


def test_ended_processes_and_odd_names_are_read(made_machine: MadeMachine) -> None:
    """A process that its parent has not waited for uses nothing. A name may hold spaces and brackets."""
    made_machine.process(10, parent=1, name="a) S 1 (b")
    made_machine.process(11, parent=10, state="Z")
    tree = CommandTree(10, made_machine.root).read(1.0, now_ticks=200)
    assert (tree.processes, list(tree.by_name)) == (1, ["a) S 1 (b"])


def test_cpu_time_of_an_ended_child_counts_once(made_machine: MadeMachine) -> None:
    """The kernel adds it to its parent: that part which was counted before is taken off again."""
    made_machine.process(10, parent=1)
    made_machine.process(11, parent=10, user=HZ)
    tree = CommandTree(10, made_machine.root)
    assert tree.read(0.0, now_ticks=200).cpu is None
    made_machine.process(10, parent=1, user=HZ)
    made_machine.process(11, parent=10, user=2 * HZ)
    assert tree.read(1.0, now_ticks=300).cpu == 200.0
    made_machine.end(11)
    made_machine.process(10, parent=1, user=HZ, of_children=5 * HZ // 2)
    assert tree.read(1.0, now_ticks=400).cpu == 50.0


def test_a_child_that_waits_for_its_parent_counts_once(made_machine: MadeMachine) -> None:
    """A program may wait for its workers long after they have ended. Their CPU time is no peak then."""
    made_machine.process(10, parent=1)
    made_machine.process(11, parent=10, user=99 * HZ, read=7_000)
    tree = CommandTree(10, made_machine.root)
    tree.read(0.0, now_ticks=200)
    made_machine.process(11, parent=10, state="Z", user=100 * HZ, pages=0, read=7_000)
    ended = tree.read(1.0, now_ticks=300)
    assert (ended.cpu, ended.read, ended.processes) == (100.0, 0.0, 1)
    assert tree.read(1.0, now_ticks=400).cpu == 0.0
    made_machine.end(11)
    made_machine.process(10, parent=1, user=HZ // 2, of_children=100 * HZ, read=7_000)
    waited = tree.read(1.0, now_ticks=500)
    assert (waited.cpu, waited.read) == (50.0, 0.0)


def test_children_between_two_readings_are_in_the_cpu_time(made_machine: MadeMachine) -> None:
    """A compiler that lives for a tenth of a second is never seen, but its parent has waited for it."""
    made_machine.process(10, parent=1)
    tree = CommandTree(10, made_machine.root)
    tree.read(0.0, now_ticks=200)
    made_machine.process(10, parent=1, of_children=HZ)
    made_machine.process(12, parent=10, user=HZ // 2, started=250)
    assert tree.read(1.0, now_ticks=300).cpu == 150.0


def test_a_child_that_nobody_waits_for_leaves_no_negative_figure(made_machine: MadeMachine) -> None:
    """The CPU time of a child that is not waited for is lost. That of the others still counts."""
    made_machine.process(10, parent=1)
    made_machine.process(11, parent=10, user=50 * HZ)
    tree = CommandTree(10, made_machine.root)
    tree.read(0.0, now_ticks=200)
    made_machine.end(11)
    made_machine.process(10, parent=1, user=HZ)
    assert tree.read(1.0, now_ticks=300).cpu == 100.0


def test_bytes_of_storage_are_rates(made_machine: MadeMachine) -> None:
    """A process of another user has none that can be read."""
    made_machine.process(10, parent=1, read=1_000)
    made_machine.process(11, parent=10)
    (made_machine.root / "proc/11/io").unlink()
    tree = CommandTree(10, made_machine.root)
    tree.read(0.0, now_ticks=200)
    made_machine.process(10, parent=1, read=5_000, written=600)
    found = tree.read(2.0, now_ticks=300)
    assert (found.read, found.written) == (2_000.0, 300.0)


@pytest.fixture
def family() -> Iterator[list[int]]:
    """A process, its child with 30 MB, and an orphan of it."""
    parent = subprocess.Popen(
        [sys.executable, "-c", FAMILY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "OF_THE_FAMILY": str(os.getpid())},
    )
    with parent:
        assert parent.stdout is not None
        pids = [parent.pid, *map(int, parent.stdout.readline().split())]
        yield pids
        for pid in reversed(pids):
            psutil.Process(pid).kill()


@pytest.mark.slow
def test_a_real_tree_has_the_figures_of_psutil(family: list[int], wait_until: Callable[..., object]) -> None:
    """CPU, memory, threads and open files of a tree with a busy process, a large one and one without a parent.

    The orphan is not among psutil's children of the command.
    """
    tree = CommandTree(family[0], variable=f"OF_THE_FAMILY={os.getpid()}")
    every = [psutil.Process(pid) for pid in family[:2]]
    tree.read(0.0)
    before, begin = [one.cpu_times() for one in every], time.monotonic()
    wait_until(lambda: time.monotonic() - begin > 1.0)
    found, after = tree.read(time.monotonic() - begin), [one.cpu_times() for one in every]
    seconds = time.monotonic() - begin
    spent = sum(two.user + two.system - one.user - one.system for one, two in zip(before, after, strict=True))
    assert found.cpu == pytest.approx(100 * spent / seconds, abs=25.0)
    everyone = [psutil.Process(pid) for pid in family]
    assert found.processes == len(everyone)
    assert found.memory == pytest.approx(sum(one.memory_info().rss for one in everyone), rel=0.1)
    assert found.threads == sum(one.num_threads() for one in everyone)
    assert tree.open_files() == sum(one.num_fds() for one in everyone)
