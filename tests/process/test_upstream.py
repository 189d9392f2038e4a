"""A run on several nodes: a leaf on each passes its numbers on to the root, which has those of one run."""

from __future__ import annotations

import re
import signal
import socket
import sys
from typing import Any

import pytest
from tests.process.leaves import (
    DEADLINE_S,
    Cluster,
    Served,
    WaitUntil,
    check_whole,
    counter,
    exact_percentiles,
    reached,
)

from telemetry.store.records import RecordLog
from telemetry.wire.events import ClosedStep, Mark


@pytest.fixture
def cluster(ground: Any) -> Cluster:
    return Cluster(ground)


def test_two_leaves_make_one_run(cluster: Cluster) -> None:
    """Counts, exact percentiles, marks and steps are those of all producers; each leaf has a result of its own."""
    root = cluster.root("--nodes", "a,b")
    leaves = {node: cluster.leaf(node, root) for node in "ab"}
    for node, leaf in leaves.items():
        cluster.record(f"{node}0", leaf, 4_000)
        cluster.record(f"{node}1", leaf, 2_000)
    made = cluster.made()
    final = cluster.stop(root)
    check_whole(final, made)
    assert final["exact"], final["exact_reason"]
    [value] = final["series"]
    wanted = exact_percentiles(made)
    assert {p: value["percentiles"][p] for p in wanted} == wanted
    assert [(node["node"], node["status"], node["producers"]) for node in final["nodes"]] == [
        ("a", "ended", 2),
        ("b", "ended", 2),
    ]
    assert final["producers"] == [], "producers of nodes are not those of the root"
    records = [item.record for item in RecordLog(root.directory / "records").read(0, 100_000)]
    marks = {record.text for record in records if isinstance(record, Mark)}
    assert marks == {
        f"{node}{who} {at}"
        for node in "ab"
        for who, most in ((0, 4_000), (1, 2_000))
        for at in range(200, most + 1, 200)
    }
    steps = {record.step: record for record in records if isinstance(record, ClosedStep) and not record.revision}
    assert set(steps) == set(range(1, 21))
    for leaf in leaves.values():
        leaf.wait()
        own = leaf.final()
        assert (own["state"], own["completeness"], own["reason"]) == (
            "COMPLETE",
            "complete",
            "the root's run is ending",
        )
        assert counter(own, "n") == 6_000


def test_a_leaf_may_end_before_its_root(cluster: Cluster, wait_until: WaitUntil) -> None:
    """The root goes on with what the leaf has sent, and knows that it ended."""
    root = cluster.root("--nodes", "2")
    first, second = cluster.leaf("a", root), cluster.leaf("b", root)
    cluster.record("a0", first, 1_000)
    made = cluster.made()
    assert cluster.ground.run("stop", first.run_id)[0] == 0
    wait_until(lambda: "ended" in {node["status"] for node in cluster.status(root)["nodes"]}, 60.0, "the end")
    status = cluster.status(root)
    assert status["state"] == "LIVE"
    assert counter(status, "n") == 1_000
    cluster.record("b0", second, 1_000)
    made += cluster.made()
    check_whole(cluster.stop(root), made)
    second.wait()
    first.wait()
    assert first.final()["completeness"] == "complete"


def test_a_node_that_never_came_is_missing(cluster: Cluster) -> None:
    """A run whose expected node has no leaf is incomplete, and a warning names the node."""
    root = cluster.root("--nodes", "a,b")
    leaf = cluster.leaf("a", root)
    cluster.record("a0", leaf, 500)
    made = cluster.made()
    final = cluster.stop(root)
    assert (final["state"], final["completeness"]) == ("COMPLETE", "incomplete")
    assert counter(final, "n") == sum(made)
    assert {node["node"]: node["completeness"] for node in final["nodes"]} == {"a": "complete", "b": "incomplete"}
    assert any("b never connected" in warning for warning in final["warnings"]), final["warnings"]
    leaf.wait()


def test_a_middle_level_is_the_same_program(cluster: Cluster) -> None:
    """A leaf may have leaves. The root has the sums, and counts the nodes below."""
    root = cluster.root()
    middle = cluster.leaf("rack", root)
    leaves = [cluster.leaf(node, middle) for node in "ab"]
    for at, leaf in enumerate(leaves):
        cluster.record(f"p{at}", leaf, 2_000)
    made = cluster.made()
    final = cluster.stop(root)
    check_whole(final, made)
    [node] = final["nodes"]
    assert (node["node"], node["nodes"], node["account"]["applied"]) == ("rack", 2, final["accounting"]["applied"])
    assert final["exact"], final["exact_reason"]
    for served in (middle, *leaves):
        served.wait()
        assert served.final()["completeness"] == "complete"


def test_a_leaf_without_its_root_goes_on(cluster: Cluster) -> None:
    """A root that can't be reached costs the run nothing but a warning, which tells what to do."""
    root = cluster.root()
    cluster.stop(root)
    leaf = cluster.leaf("a", root, environ={"TELEMETRY_UPSTREAM__FINISH_TIMEOUT_S": "0.5"})
    cluster.record("a0", leaf, 500)
    made = cluster.made()
    code, _, err = cluster.ground.run("stop", leaf.run_id)
    assert code == 0, err
    last = leaf.wait().splitlines()[-1]
    final = leaf.final()
    assert (final["state"], final["completeness"]) == ("COMPLETE", "complete")
    assert counter(final, "n") == sum(made)
    [warning] = final["warnings"]
    assert re.search(r"the root at \S+ never got node a: it never answered: no process listens there", warning)
    assert "`telemetry merge " in warning
    assert last == f"telemetry: {warning}"
    assert (final["root"]["state"], final["root"]["reason"]) == ("undelivered", warning)


def line_with(child: Any, text: str) -> str:
    """Return the next line on stderr that contains a text."""
    lines: list[str] = []
    for line in child.stderr:
        lines.append(line)
        if text in line:
            return str(line)
    raise AssertionError(f"no line with {text!r} in {lines}")


@pytest.mark.parametrize("command", ["serve", "run"])
def test_a_leaf_says_soon_that_its_root_is_away_and_that_it_came(cluster: Cluster, command: str) -> None:
    """One line tells that the root is not there, even with --quiet, and one that it is connected after all."""
    bind = f"ipc://{cluster.ground.folder / 'root'}"
    words = ("--upstream", bind, "--node", "a")
    if command == "run":
        waiting = "import os, time\nwhile not os.path.exists('stop'): time.sleep(0.01)\n"
        words += ("--quiet", "--strict", "--", sys.executable, cluster.ground.program("waiting.py", waiting))
    leaf = cluster.ground.telemetry(command, *words)
    line = line_with(leaf, "has not answered yet")
    assert line.startswith(
        f"telemetry: the root at {bind} has not answered yet: no process listens there; check the"
    )
    root = cluster.root("--bind", bind, "--nodes", "a")
    line_with(leaf, f"connected to the root at {bind}")
    (cluster.ground.folder / "stop").touch()
    if command == "serve":
        cluster.stop(root)
    _, err = leaf.communicate(timeout=DEADLINE_S)
    assert leaf.returncode == 0, err
    if command == "run":
        assert err == ""
        root.wait()
    assert root.final()["completeness"] == "complete"


@pytest.mark.parametrize(
    ("host", "why"), [("127.0.0.1:1", "no process listens there"), ("nowhere.invalid:5757", "can't be resolved")]
)
def test_strict_is_not_content_without_the_root(cluster: Cluster, host: str, why: str) -> None:
    """A leaf that ends without its root exits 6 with --strict, and its last line says so despite --quiet."""
    environ = {"TELEMETRY_UPSTREAM__FINISH_TIMEOUT_S": "0.5"}
    words = ("--quiet", "--upstream", f"tcp://{host}", "--node", "a", "--", sys.executable, "-c", "0")
    for strict, wanted in (((), 0), (("--strict",), 6)):
        code, _, err = cluster.ground.run("run", *strict, *words, environ=environ)
        assert code == wanted, err
        last = err.splitlines()[-1]
        assert f"telemetry: the root at tcp://{host} never got node a: it never answered: " in last
        assert why in last


@pytest.mark.parametrize(
    ("address", "said"),
    [("nowhere", "is not an address to connect to"), ("tcp://127.0.0.1:47114", "is the address of this leaf")],
)
def test_an_address_that_can_not_be_that_of_a_root(cluster: Cluster, address: str, said: str) -> None:
    """The command refuses an address that cannot be a root's at its start, in one line."""
    bind = ("--bind", address) if address.startswith("tcp") else ()
    code, _, err = cluster.ground.run("serve", "--upstream", address, *bind)
    assert code in (1, 2), err
    assert said in err
    assert "Traceback" not in err


def test_a_resumed_run_keeps_its_root(cluster: Cluster) -> None:
    """The address comes from the manifest. The name of the node can't be changed."""
    root = cluster.root()
    leaf = cluster.leaf("a", root)
    leaf.kill()
    code, _, err = cluster.ground.run("serve", "--resume", str(leaf.directory), "--node", "b")
    assert (code, "--node can't be combined with --resume" in err) == (2, True), err
    again = cluster.resume(leaf)
    cluster.record("a0", again, 500)
    made = cluster.made()
    check_whole(cluster.stop(root), made)
    again.wait()


def test_a_root_moves_to_another_address_and_its_leaves_follow(cluster: Cluster, wait_until: WaitUntil) -> None:
    """A root is resumed at another address, and its leaf with that address. Both keep it in later resumes."""
    root = cluster.root("--bind", "tcp://127.0.0.1:*", "--nodes", "a")
    leaf = cluster.leaf("a", root)
    cluster.record("a0", leaf)
    reached(cluster, root, wait_until)
    for bind in (("--bind", "tcp://127.0.0.2:*"), ()):
        root.kill()
        root = cluster.resume(root, *bind)
        assert root.endpoint.startswith("tcp://127.0.0.2:")
        leaf.kill()
        leaf = cluster.resume(leaf, *(("--upstream", root.endpoint) if bind else ()))
        reached(cluster, root, wait_until)
    made = cluster.made()
    final = cluster.stop(root)
    check_whole(final, made)
    leaf.wait()
    assert leaf.final()["root"]["address"] == root.endpoint


def test_a_run_without_a_root_can_not_get_one(cluster: Cluster) -> None:
    """A run that is resumed does not become a leaf."""
    root = cluster.root()
    root.kill()
    code, _, err = cluster.ground.run(
        "serve", "--resume", str(root.directory), "--upstream", "tcp://127.0.0.1:47114"
    )
    assert (code, "the run root has no root, so --upstream can't move it" in err) == (2, True), err


def test_run_makes_a_node_of_a_command(cluster: Cluster) -> None:
    """`telemetry run --upstream` is a leaf with a command."""
    root = cluster.root("--nodes", "a")
    program = cluster.ground.program(
        "command.py", "import telemetry\nrun = telemetry.start('c')\nrun.counter('n').add(3)\nrun.finish()\n"
    )
    words = ("--upstream", root.endpoint, "--node", "a", "--", sys.executable, program)
    code, _, err = cluster.ground.run("run", *words)
    assert code == 0, err
    root.wait()
    final = root.final()
    assert (final["completeness"], counter(final, "n")) == ("complete", 3), final["nodes"]


def test_a_leaf_with_a_foreign_key_stays_alone_until_it_is_trusted(cluster: Cluster, wait_until: WaitUntil) -> None:
    """A leaf of the same user is part of the run over tcp with keys. A stranger's leaf says why it is not.

    Once its key is trusted, it is.
    """
    ground = cluster.ground
    stranger = {"XDG_CONFIG_HOME": str(ground.folder / "stranger")}
    (ground.folder / "stranger").mkdir()
    for environ in ({}, stranger):
        code, _, err = ground.run("keys", "new", environ=environ)
        assert code == 0, err
    root = cluster.root("--bind", "tcp://0.0.0.0:*", "--nodes", "a,b")
    known, foreign = cluster.leaf("a", root), cluster.leaf("b", root, environ=stranger)
    cluster.record("a0", known, 500)
    cluster.record("b0", foreign)
    refusal = line_with(foreign.child, "is not part of the root's run")
    [command] = re.findall(r"telemetry (keys trust) NAME '(.*)'\)", refusal)
    assert any("is not part of the root's run" in warning for warning in cluster.status(foreign)["warnings"])
    assert [node["node"] for node in cluster.status(root)["nodes"] if node["leaf"]] == ["a"]
    key = ground.program("key.txt", command[1])
    code, _, err = ground.run(*command[0].split(), "stranger", key)
    assert code == 0, err
    line_with(foreign.child, "connected to the root at ")
    assert cluster.status(foreign)["warnings"] == []
    made = cluster.made()
    final = cluster.stop(root)
    assert [node["completeness"] for node in final["nodes"]] == ["complete", "complete"]
    check_whole(final, made)
    known.wait()
    foreign.wait()


def test_a_refused_leaf_is_not_content_with_strict(cluster: Cluster) -> None:
    """A leaf without a key says at once what is missing, and its end does not wait for the root."""
    code, _, err = cluster.ground.run("keys", "new")
    assert code == 0, err
    root = cluster.root("--bind", "tcp://0.0.0.0:*")
    address = root.endpoint.partition("#")[0].replace("0.0.0.0", "127.0.0.1")
    words = ("--upstream", address, "--", sys.executable, "-c", "import time; time.sleep(2)")
    code, _, err = cluster.ground.run("run", "--quiet", "--strict", *words)
    lines = err.splitlines()
    assert (code, len(lines)) == (6, 2), err
    assert lines[0] == lines[1]
    assert f"not part of the root's run at {address}: the aggregator at {address} requires a key" in lines[0]
    cluster.stop(root)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--nodes", "0"), "a run has 1 to"),
        (("--nodes", ","), "names no nodes"),
        (("--node", "a,b", "--upstream", "tcp://127.0.0.1:47114"), "not a valid name for a node"),
        (("--node", "a"), "add --upstream ADDRESS"),
    ],
)
def test_wrong_words_about_nodes_leave_nothing_behind(cluster: Cluster, words: tuple[str, ...], said: str) -> None:
    """Exit 2, one line, and no run directory that would be `latest`."""
    code, _, err = cluster.ground.run("serve", *words)
    assert (code, said in err) == (2, True), err
    assert not (cluster.ground.folder / "runs").exists()


def test_a_leaf_at_its_own_address_is_no_node_of_itself(cluster: Cluster, wait_until: WaitUntil) -> None:
    """A leaf at its own address, in whatever spelling, is no node of itself.

    The leaf's run goes on, and is complete without itself.
    """
    (cluster.ground.folder / "link").symlink_to(cluster.ground.folder)
    here = cluster.ground.folder / "own"
    words = ("--bind", f"ipc://{here}", "--upstream", f"ipc://{cluster.ground.folder / 'link' / 'own'}")
    leaf = cluster.root(*words, "--node", "a")
    wait_until(lambda: cluster.status(leaf)["warnings"], DEADLINE_S, "the refusal")
    final = cluster.stop(leaf)
    assert (final["completeness"], final["nodes"]) == ("complete", [])
    assert any("is the address of this leaf" in said for said in final["warnings"]), final["warnings"]


def test_two_leaves_can_not_be_roots_of_each_other(cluster: Cluster, wait_until: WaitUntil) -> None:
    """One of them stays alone, or both if they ask at the same time. So no value goes round in a circle."""
    first, second = (f"ipc://{cluster.ground.folder / name}" for name in ("one", "two"))
    upper = cluster.root("--bind", first, "--upstream", second, "--node", "upper")
    lower = cluster.root("--bind", second, "--upstream", first, "--node", "lower")
    alone = "is the address of a node of this run"

    def is_alone(leaf: Served) -> bool:
        return any(alone in warning for warning in cluster.status(leaf)["warnings"])

    wait_until(lambda: is_alone(upper) or is_alone(lower), DEADLINE_S, "the refusal")
    cluster.record("p", lower, 1_000)
    made = cluster.made()
    if is_alone(upper) and is_alone(lower):
        final = cluster.stop(lower)
        assert counter(final, "n") == sum(made)
        assert (final["completeness"], "node upper has not ended" in final["warnings"]) == ("incomplete", True)
    else:
        check_whole(cluster.stop(lower), made)
    final = cluster.stop(upper) if upper.child.poll() is None else upper.final()
    assert counter(final, "n") <= 1_000


@pytest.mark.parametrize(("nodes", "completeness"), [("2", "incomplete"), ("a", "complete")])
def test_two_nodes_with_one_name_are_told_apart(
    cluster: Cluster, wait_until: WaitUntil, nodes: str, completeness: str
) -> None:
    """Two nodes of the same name count as one node. A warning names both, while the run goes on and at its end."""
    root = cluster.root("--nodes", nodes)
    leaves = [cluster.leaf("a", root) for _ in range(2)]
    twins = "2 leaves have the same name a: "

    def warned() -> list[str]:
        return [warning for warning in cluster.status(root)["warnings"] if twins in warning]

    [live] = wait_until(warned, DEADLINE_S, "the warning")
    final = cluster.stop(root)
    assert final["completeness"] == completeness
    [warning] = [warning for warning in final["warnings"] if twins in warning]
    assert warning == live
    assert warning.endswith("; they count as one node, so give each its own --node")
    for leaf in leaves:
        assert f"run {leaf.run_id} on {socket.gethostname()} (pid {leaf.child.pid})" in warning
        leaf.wait()


def test_a_leaf_beyond_the_bound_is_refused(cluster: Cluster) -> None:
    """A leaf too many says why it is alone. The root accepts its own nodes, and is lossy."""
    ground = cluster.ground
    (ground.folder / "seam").mkdir()
    ground.program("seam/sitecustomize.py", "from telemetry import limits\nlimits.NODES = 1\n")
    root = cluster.root("--nodes", "a", environ={"PYTHONPATH": str(ground.folder / "seam")})
    leaf = cluster.leaf("a", root)
    cluster.record("a0", leaf, 500)
    [made] = cluster.made()
    words = ("--quiet", "--strict", "--upstream", root.endpoint, "--node", "b", "--", sys.executable, "-c", "0")
    code, _, err = ground.run("run", *words)
    assert code == 6, err
    assert "already has 1 nodes, and accepts no more; add a level of leaves between" in err.splitlines()[-1]
    final = cluster.stop(root)
    assert (final["completeness"], counter(final, "n")) == ("lossy", made)
    assert [node["node"] for node in final["nodes"]] == ["a"]
    assert final["accounting"]["bad_frames"] == {"too_many_producers": 1}
    leaf.wait()


@pytest.mark.slow
@pytest.mark.parametrize("impatient", [False, True])
def test_run_stays_until_the_root_needs_its_leaf_no_more(
    cluster: Cluster, wait_until: WaitUntil, impatient: bool
) -> None:
    """The command `run` stays until the root needs its leaf no more, and Ctrl-C ends the wait.

    The job's starter may kill all that is left once its commands have ended.
    """
    root = cluster.root("--nodes", "a,b")
    other = cluster.leaf("b", root)
    program = cluster.ground.program(
        "command.py",
        "import telemetry\nrun = telemetry.start('c')\nv = run.series('v')\n"
        "for n in range(100):\n    v.record(n)\nrun.finish()\n",
    )
    words = ("--upstream", root.endpoint, "--node", "a", "--", sys.executable, program)
    running = cluster.ground.telemetry("run", *words)
    said = []
    while not said or "until its run ends" not in said[-1]:
        said.append(running.stderr.readline())
        assert said[-1], said
    assert {node["node"]: node["status"] for node in cluster.status(root)["nodes"]}["a"] == "ended"
    if impatient:
        running.send_signal(signal.SIGINT)
    else:
        final = cluster.stop(root)
        assert (final["completeness"], final["exact"]) == ("complete", True), final["exact_reason"]
    _, err = running.communicate(timeout=DEADLINE_S)
    assert running.returncode == 0, err
    if impatient:
        cluster.stop(root)
    other.wait()
