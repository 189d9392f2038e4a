"""A run on several nodes: a leaf on each passes its numbers on to the root, which has those of one run."""

from __future__ import annotations

import re
import signal
import sys
from typing import Any

import pytest
from tests.process.leaves import DEADLINE_S, Cluster, Served, WaitUntil, check_whole, counter, exact_percentiles

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
    final = cluster.stop(leaf)
    assert (final["state"], final["completeness"]) == ("COMPLETE", "complete")
    assert counter(final, "n") == sum(made)
    [warning] = [said for said in final["warnings"] if "has not taken" in said]
    assert re.search(r"the root at \S+ has not taken \d+ batch(es)? of this node: it never answered", warning)
    assert "`telemetry merge " in warning


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
    """The address comes from the manifest, so it can't be given again."""
    root = cluster.root()
    leaf = cluster.leaf("a", root)
    leaf.kill()
    code, _, err = cluster.ground.run("serve", "--resume", str(leaf.directory), "--upstream", root.endpoint)
    assert (code, "--upstream can't be combined with --resume" in err) == (2, True), err
    again = cluster.resume(leaf)
    cluster.record("a0", again, 500)
    made = cluster.made()
    check_whole(cluster.stop(root), made)
    again.wait()


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


def test_a_leaf_with_a_foreign_key_stays_alone(cluster: Cluster, wait_until: WaitUntil) -> None:
    """A leaf of the same user is part of the run over tcp with keys. A stranger's leaf says why it is not."""
    ground = cluster.ground
    stranger = {"XDG_CONFIG_HOME": str(ground.folder / "stranger")}
    (ground.folder / "stranger").mkdir()
    for environ in ({}, stranger):
        code, _, err = ground.run("keys", "new", environ=environ)
        assert code == 0, err
    root = cluster.root("--bind", "tcp://0.0.0.0:*", "--nodes", "a")
    known, foreign = cluster.leaf("a", root), cluster.leaf("b", root, environ=stranger)
    cluster.record("a0", known, 500)
    cluster.record("b0", foreign, 500)
    assert cluster.made() == [500, 500]
    wait_until(
        lambda: any("is not part of the root's run" in said for said in cluster.status(foreign)["warnings"]),
        60.0,
        "the refusal",
    )
    own = cluster.stop(foreign)
    assert (own["completeness"], counter(own, "n")) == ("complete", 500)
    final = cluster.stop(root)
    assert [node["node"] for node in final["nodes"]] == ["a"]
    assert (final["completeness"], counter(final, "n")) == ("complete", 500)
    known.wait()


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


def test_two_nodes_with_one_name_are_told_apart(cluster: Cluster) -> None:
    """Two nodes of the same name count as one node, and a warning says why the second one is missing."""
    root = cluster.root("--nodes", "2")
    leaves = [cluster.leaf("a", root) for _ in range(2)]
    final = cluster.stop(root)
    assert final["completeness"] == "incomplete"
    assert any("2 leaves have the same name a: give each its own --node" in said for said in final["warnings"])
    for leaf in leaves:
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
