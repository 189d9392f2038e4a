"""The final file is strict JSON with the wire's names, lands somewhere, and reads back."""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from pathlib import Path

import pytest
from msgspec.structs import replace

from telemetry.errors import RunDirectoryError
from telemetry.store.final_snapshot import (
    FinalFile,
    final_candidates,
    final_json,
    find_final,
    read_final,
    write_final,
)
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.codec import Malformed, snapshot_from_json
from telemetry.wire.snapshot import (
    Accounting,
    CounterStat,
    GaugeStat,
    MetricsSnapshot,
    NodeStat,
    ProducerStat,
    SelfCost,
    SeriesStat,
    WindowStat,
)


def snapshot(**changes: object) -> MetricsSnapshot:
    facts: dict[str, object] = {
        "run_id": "r1",
        "name": "bench [\n  1,\n  2\n]",
        "state": "COMPLETE",
        "completeness": "complete",
        "accounting": Accounting(emitted=3, received=3, applied=3),
        "producers": [
            ProducerStat(producer="p", emitted=3, received=3, applied=3, missing_batches=[(3, 4), (7, 7)])
        ],
        "counters": [CounterStat(name="done", value=2**70, events=1)],
        "gauges": [GaugeStat(name="temp", value=-1.5, min=-2, max=3.25)],
        "series": [
            SeriesStat(
                name="latency",
                labels={"op": "read"},
                unit="ms",
                count=3,
                total=6,
                percentiles={"50": 2, "99.9": 2.5},
                histogram=[(4, 1), (10, 2)],
                window=WindowStat(seconds=1.0, count=1),
            )
        ],
        "params": {"lr": 0.1, "note": None},
        "cost": SelfCost(cpu_s=0.25),
    }
    return MetricsSnapshot(**(facts | changes))  # type: ignore[arg-type]


def test_round_trip(tmp_path: Path) -> None:
    """A final snapshot reads back as it was written."""
    path = tmp_path / "final_snapshot.json"
    assert write_final(snapshot(), [path]) == path
    assert read_final(path) == snapshot()
    assert os.listdir(tmp_path) == ["final_snapshot.json"]


def test_names_others_rely_on() -> None:
    """Top level, counters, gauges and series carry the frozen names, indented, pairs on one line."""
    text = final_json(snapshot()).decode()
    document = json.loads(text)
    assert {"schema_version", "state", "completeness", "counters", "gauges", "series"} <= set(document)
    assert {"name", "labels", "unit", "value"} <= set(document["counters"][0]) & set(document["gauges"][0])
    wanted = {"count", "total", "min", "max", "mean", "stddev", "percentiles", "exact", "error_bound"}
    assert wanted | {"name", "labels", "unit"} <= set(document["series"][0])
    assert document["name"] == "bench [\n  1,\n  2\n]"
    assert document["counters"][0]["value"] == 2**70
    assert '\n  "state": "COMPLETE"' in text
    assert "[10, 2]" in text
    assert "[7, 7]" in text


def test_numbers_that_are_not_finite_are_null_and_why(tmp_path: Path) -> None:
    """The file stays strict and readable; a warning names each null."""
    odd = snapshot(
        series=[SeriesStat(name="wild", total=math.inf, stddev=math.nan)],
        params={"loss": -math.inf},
        warnings=["old"],
    )
    path = write_final(odd, [tmp_path / "final_snapshot.json"])
    document = json.loads(path.read_bytes(), parse_constant=pytest.fail)
    assert document["series"][0]["total"] is None
    assert document["warnings"] == [
        "old",
        "series[wild].total is inf, stored as null",
        "series[wild].stddev is nan, stored as null",
        "params.loss is -inf, stored as null",
    ]
    found = read_final(path)
    assert found.series[0].name == "wild"
    assert found.warnings == document["warnings"]


def test_the_first_place_that_takes_it(tmp_path: Path) -> None:
    """Candidates are tried in order; missing directories are made; a failed one leaves nothing behind."""
    (tmp_path / "file").touch()
    (tmp_path / "taken" / "final_snapshot.json").mkdir(parents=True)
    candidates = [
        tmp_path / "file" / "final_snapshot.json",
        tmp_path / "taken" / "final_snapshot.json",
        tmp_path / "new" / "deep" / "final_snapshot.json",
        tmp_path / "never" / "final_snapshot.json",
    ]
    assert write_final(snapshot(), candidates) == candidates[2]
    assert read_final(candidates[2]) == snapshot()
    assert os.listdir(tmp_path / "taken") == ["final_snapshot.json"]
    assert not (tmp_path / "never").exists()


def test_a_full_disk_falls_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full at fsync sends the file to the next place."""
    real = os.fsync
    calls: list[int] = []

    def full_at_first(fd: int) -> None:
        calls.append(fd)
        if len(calls) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(fd)

    monkeypatch.setattr(os, "fsync", full_at_first)
    assert write_final(snapshot(), [tmp_path / "a" / "f", tmp_path / "b" / "f"]) == tmp_path / "b" / "f"
    assert os.listdir(tmp_path / "a") == []


def test_nowhere_to_write_names_every_reason(tmp_path: Path) -> None:
    """The error lists each place and why it failed."""
    (tmp_path / "one").touch()
    (tmp_path / "two").touch()
    with pytest.raises(RunDirectoryError) as caught:
        write_final(snapshot(), [tmp_path / "one" / "f", tmp_path / "two" / "f"])
    assert str(tmp_path / "one" / "f") in str(caught.value)
    assert str(tmp_path / "two" / "f") in str(caught.value)
    with pytest.raises(RunDirectoryError, match="no location is writable"):
        write_final(snapshot(), [])


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b"\xff", b"{}", b'{"schema_version":"x"}', b'{"schema_version":1}', b"[" * 100_000],
)
def test_a_broken_file_is_named(tmp_path: Path, data: bytes) -> None:
    """The error of a broken file is ours and names the file, whatever is wrong with it."""
    path = tmp_path / "final_snapshot.json"
    path.write_bytes(data)
    with pytest.raises(RunDirectoryError, match=r"final_snapshot\.json is damaged"):
        read_final(path)


def test_a_number_beyond_all_floats_is_damage(tmp_path: Path) -> None:
    """A number beyond all floats is damage, because no display of a result can compute with it.

    A total can come to a large integer, which is no damage.
    """
    path = tmp_path / "final_snapshot.json"
    encoded = json.loads(final_json(snapshot()))
    del encoded["crc"]
    encoded["series"] = [{"name": "s", "count": 1, "total": 10**300}]
    data = json.dumps(encoded).encode()
    path.write_bytes(data)
    assert read_final(path).series[0].total == snapshot_from_json(data).series[0].total == 10**300
    data = data.replace(b"0" * 300, b"0" * 400)
    path.write_bytes(data)
    with pytest.raises(RunDirectoryError, match="the value does not fit in a float"):
        read_final(path)
    with pytest.raises(Malformed, match="the value does not fit in a float"):
        snapshot_from_json(data)


def test_a_newer_or_missing_file_is_told_apart(tmp_path: Path) -> None:
    """Missing, not a file, of a newer version: three different words."""
    path = tmp_path / "final_snapshot.json"
    with pytest.raises(RunDirectoryError, match="does not exist"):
        read_final(path)
    with pytest.raises(RunDirectoryError, match="can't read"):
        read_final(tmp_path)
    path.write_bytes(b'{"schema_version":7}')
    with pytest.raises(RunDirectoryError, match="schema version 7"):
        read_final(path)


def test_a_result_is_found_where_it_went(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result is looked for in its directory, in the fallback directories, and in the temporary one."""
    temporary, spare = tmp_path / "tmp", tmp_path / "spare"
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(temporary))
    run = RunDirectory.create(tmp_path / "runs", "bench", "r1", 1)
    candidates = final_candidates(run, [str(spare)])
    name = "telemetry-r1-final_snapshot.json"
    assert candidates == [run.final, spare / name, temporary / name]
    assert find_final(run, [str(spare)]) is None
    for path in reversed(candidates):
        write_final(snapshot(), [path])
        assert find_final(run, [str(spare)]) == FinalFile(path, run)
    run.final.unlink()
    assert find_final(run) == FinalFile(temporary / name, run)


@pytest.fixture
def fallback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[RunDirectory, Path]:
    """A run whose result is among the temporary files, and that file."""
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "tmp"))
    run = RunDirectory.create(tmp_path / "runs", "bench", "r1", 1)
    path = write_final(snapshot(), [final_candidates(run)[-1]])
    assert find_final(run) == FinalFile(path, run)
    return run, path


def test_a_result_elsewhere_is_of_the_same_owner(
    fallback: tuple[RunDirectory, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody may write to the directory for temporary files: only a file of the run's owner counts there."""
    run, path = fallback
    os.chown(path, 12_345, -1)
    assert find_final(run) is None
    with pytest.raises(RunDirectoryError, match="belongs to another user"):
        FinalFile(path, run).read()
    os.chown(run.path, 12_345, -1)
    assert find_final(run) is not None


def test_a_result_elsewhere_is_no_link(fallback: tuple[RunDirectory, Path]) -> None:
    """A link that somebody planted could lead to any file of the user."""
    run, path = fallback
    path.rename(path.with_name("other"))
    path.symlink_to(path.with_name("other"))
    assert find_final(run) is None
    path.unlink()
    os.mkfifo(path)
    assert find_final(run) is None


def test_a_result_elsewhere_is_of_this_run(fallback: tuple[RunDirectory, Path]) -> None:
    """The name of a file proves nothing: the id inside has to be that of the run."""
    run, path = fallback
    path.write_bytes(final_json(snapshot(run_id="r2")))
    assert find_final(run) is None
    with pytest.raises(RunDirectoryError, match="result of run r2, not of r1"):
        FinalFile(path, run).read()


def test_a_result_elsewhere_is_private(fallback: tuple[RunDirectory, Path]) -> None:
    """A result outside its directory is readable by its user alone.

    A file that others could have changed is not read.
    """
    run, path = fallback
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o620)
    assert find_final(run) is None


def test_a_result_elsewhere_replaces_a_planted_link(fallback: tuple[RunDirectory, Path]) -> None:
    """Writing follows no link either: what it leads to stays."""
    run, path = fallback
    victim = path.with_name("victim")
    victim.write_text("mine")
    path.unlink()
    path.symlink_to(victim)
    write_final(snapshot(), [path])
    assert victim.read_text() == "mine"
    assert find_final(run) == FinalFile(path, run)


def test_others_may_not_replace_files_beside_a_result(fallback: tuple[RunDirectory, Path]) -> None:
    """A directory for temporary files without its sticky bit is no place for a result."""
    _, path = fallback
    path.parent.chmod(0o777)
    with pytest.raises(RunDirectoryError, match=r"final_snapshot\.json: other users may replace files"):
        write_final(snapshot(), [path])
    path.parent.chmod(0o1777)
    assert write_final(snapshot(), [path]) == path


def test_the_head_of_a_result(tmp_path: Path) -> None:
    """The head of a result has what a list shows, without the rest. A broken file is an error of ours."""
    run = RunDirectory.create(tmp_path / "runs", "bench", "r1", 1)
    found = FinalFile(write_final(snapshot(), [run.final]), run)
    head = found.head()
    assert (head.name, head.run_id, head.state) == (snapshot().name, snapshot().run_id, snapshot().state)
    run.final.write_bytes(b"{}")
    with pytest.raises(RunDirectoryError, match="damaged"):
        found.head()
    run.final.unlink()
    with pytest.raises(RunDirectoryError, match="does not exist"):
        found.head()


def test_any_changed_byte_is_noticed_or_means_nothing(tmp_path: Path) -> None:
    """A checksum in the file covers all that is said in it; the file stays JSON."""
    path = write_final(snapshot(), [tmp_path / "final_snapshot.json"])
    data = path.read_bytes()
    assert list(json.loads(data))[-1] == "crc"
    refused = 0
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        try:
            assert read_final(path) == snapshot()
        except RunDirectoryError as error:
            refused += "final_snapshot.json is damaged" in error.message
    assert refused > len(data) - 64


def test_a_file_without_a_checksum_is_read(tmp_path: Path) -> None:
    """Older versions wrote none, and who edits a file removes it, as the error says."""
    path = tmp_path / "final_snapshot.json"
    document = json.loads(final_json(snapshot()))
    document["name"] = "edited"
    path.write_bytes(json.dumps(document).encode())
    with pytest.raises(RunDirectoryError) as caught:
        read_final(path)
    assert "remove its last field, `crc`" in (caught.value.hint or "")
    del document["crc"]
    path.write_bytes(json.dumps(document).encode())
    assert read_final(path) == snapshot(name="edited")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"percentiles": {"99.9": 2, "50": 2.5}}, "p50 of 2.5, above its p99.9 of 2"),
        ({"percentiles": {"100": 1, "99.9": 2}}, "p99.9 of 2, above its p100 of 1"),
        ({"min": 0, "max": 2}, "p99.9 of 2.5, outside of its range from 0 to 2"),
        ({"min": 3, "max": 2, "percentiles": {}}, "minimum of 3, above its maximum of 2"),
        ({"histogram": [(4, 1), (10, 1)]}, "has 3 values, but its histogram 2"),
        ({"count": -1, "histogram": []}, "negative count"),
        ({"window": WindowStat(percentiles={"50": 2, "99": 1})}, "the window of series latency{op=read}"),
    ],
)
def test_a_series_that_contradicts_itself_is_refused(
    tmp_path: Path, changes: dict[str, object], problem: str
) -> None:
    """Percentiles rise with their rank and lie in the range; a histogram has all values."""
    path = tmp_path / "final_snapshot.json"
    write_final(snapshot(series=[replace(snapshot().series[0], **changes)]), [path])
    with pytest.raises(RunDirectoryError, match=r"final_snapshot\.json is inconsistent") as caught:
        read_final(path)
    assert problem in caught.value.message


@pytest.mark.parametrize(
    ("total", "own", "problem"),
    [
        (
            {"emitted": 4},
            {"emitted": 4},
            "has 4 emitted events, but 3 received + 0 dropped by producers",
        ),
        ({"applied": 2}, {"applied": 2}, "has 3 received events, but 2 applied + 0 dropped + 0 waiting"),
        ({"emitted": 4, "missing": 1}, {}, "the accounting has 4 emitted events, its producers 3"),
        ({}, {"missing": -1, "emitted": 2}, "the account of producer 'p' has a negative count"),
    ],
)
def test_an_account_that_does_not_add_up_is_refused(
    tmp_path: Path, total: dict[str, int], own: dict[str, int], problem: str
) -> None:
    """Emitted events are received, dropped or missing, and all producers together are the total.

    An account that contradicts this is refused.
    """
    usual = snapshot()
    changed = replace(
        usual,
        accounting=replace(usual.accounting, **total),
        producers=[replace(usual.producers[0], **own)],
    )
    path = write_final(changed, [tmp_path / "final_snapshot.json"])
    with pytest.raises(RunDirectoryError) as caught:
        read_final(path)
    assert problem in caught.value.message


def test_accounts_of_nodes_are_part_of_the_total(tmp_path: Path) -> None:
    """A node whose account does not add up is refused like a producer."""
    usual = snapshot()
    own = Accounting(emitted=5, received=5, applied=5)
    total = replace(usual.accounting, emitted=8, received=8, applied=8)
    whole = replace(usual, accounting=total, nodes=[NodeStat(node="n1", account=own)])
    place = tmp_path / "final_snapshot.json"
    assert read_final(write_final(whole, [place])) == whole
    for broken, problem in (
        (replace(whole, accounting=usual.accounting), "has 3 emitted events, its producers and nodes 8"),
        (replace(whole, nodes=[NodeStat(node="n1", account=replace(own, emitted=6))]), "the account of node 'n1'"),
    ):
        write_final(broken, [place])
        with pytest.raises(RunDirectoryError, match=problem):
            read_final(place)
