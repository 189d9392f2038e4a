"""The nodes of a finished run; of a live one in tests of processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from telemetry.cli.main import main
from telemetry.store.final_snapshot import read_final, write_final
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.snapshot import Accounting, MetricsSnapshot, NodeStat, ProducerStat

MakeRun = Callable[..., RunDirectory]
ACCOUNT = Accounting(emitted=7, received=7, applied=7)


@pytest.fixture
def fleet(make_run: MakeRun, tmp_path: Path) -> RunDirectory:
    """A run with a complete node, whose leaf has left its result here, and a node that never connected."""
    leaf = RunDirectory.create(tmp_path, "fleet", "leaf1111", 0)
    ranks = [ProducerStat(producer=f"p{rank}", name="train", host="h", pid=rank + 1, rank=rank) for rank in (1, 0)]
    write_final(MetricsSnapshot(run_id="leaf1111", name="fleet", state="COMPLETE", producers=ranks), [leaf.final])
    one = NodeStat(
        node="n1",
        leaf="leaf1111",
        host="h",
        pid=4,
        status="ended",
        completeness="complete",
        producers=2,
        account=ACCOUNT,
        endpoint="tcp://h:1",
        directory=str(leaf.path),
    )
    other = replace(one, node="n2", leaf="leaf2222", directory="/nowhere/leaf", account=Accounting())
    run = make_run("fleet", "aaaa1111", completeness="incomplete")
    result = replace(read_final(run.final), nodes=[one, other, NodeStat(node="n3", status="lost")])
    write_final(result, [run.final])
    return run


def test_nodes_are_listed_with_what_is_wrong(fleet: RunDirectory, capsys: pytest.CaptureFixture[str]) -> None:
    """All of them, incomplete ones first; `ls` says how many there are."""
    assert main(["nodes", "fleet"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["n3", "n1", "n2"]
    assert lines[-2:] == ["3 nodes, 2 complete, 4 producers", "n3: it never connected"]
    assert main(["nodes", "--json"]) == 0
    assert [stat["node"] for stat in json.loads(capsys.readouterr().out)] == ["n1", "n2", "n3"]
    assert main(["ls"]) == 0
    assert "  nodes  " in capsys.readouterr().out.splitlines()[0]
    assert main(["ls", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["nodes"] == 3


def test_producers_of_a_node_come_from_its_leaf(fleet: RunDirectory, capsys: pytest.CaptureFixture[str]) -> None:
    """Producers of a node come from its leaf, by rank. A node is named by its name or by the run id of its leaf."""
    assert main(["nodes", "fleet", "n1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "address tcp://h:1" in lines
    assert [line.split() for line in lines[-2:]] == [["train", "0", "h", "1", "p0"], ["train", "1", "h", "2", "p1"]]
    assert main(["nodes", "fleet", "leaf1111", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["node"]["node"] == "n1"
    assert [member["rank"] for member in found["producers"]] == [1, 0]


def test_without_the_leafs_result_it_says_where_that_is(
    fleet: RunDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    """The node itself is shown all the same."""
    assert main(["nodes", "fleet", "n2", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["producers"] is None
    assert "the leaf has its own result in /nowhere/leaf on h" in err


def test_an_unknown_node_is_refused(
    fleet: RunDirectory, make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the nodes that there are."""
    assert main(["nodes", "fleet", "n7"]) == 2
    assert capsys.readouterr().err == "telemetry: fleet has no node 'n7' (its nodes are n1, n2, n3)\n"
    make_run("alone", "bbbb2222")
    assert main(["nodes", "alone", "n7"]) == 2
    assert "its producers send to its aggregator directly" in capsys.readouterr().err
    assert main(["nodes", "alone"]) == 0
    said = "telemetry: alone has no nodes; its producers send to its aggregator directly\n"
    assert capsys.readouterr() == ("", said)


def test_leaves_with_one_name_are_told_apart_by_their_run(
    fleet: RunDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    """Leaves with the same name are refused by that name, and the error gives their run ids."""
    result = read_final(fleet.final)
    one, other, *_ = result.nodes
    write_final(replace(result, nodes=[one, replace(other, node="n1")]), [fleet.final])
    assert main(["nodes", "fleet", "n1"]) == 2
    said = capsys.readouterr().err
    assert "2 leaves have the name 'n1' (give the run id of one of them: leaf1111, leaf2222)" in said
    assert main(["nodes", "fleet", "leaf1111"]) == 0
