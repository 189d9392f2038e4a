"""Run directories that somebody made to do harm: changes that are applied to copies of a good directory."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path
from stat import S_IFCHR
from struct import pack
from typing import Final, NamedTuple
from zlib import crc32

from telemetry.aggregator import Aggregator, AggregatorConfig
from telemetry.daemon.numbers import Numbers
from telemetry.daemon.write_ahead import WriteAheadLog
from telemetry.store.journal import JournalWriter
from telemetry.store.request_log import RequestLogWriter
from telemetry.testing import FakeClock, frame
from telemetry.testing.builders import ended
from telemetry.testing.sample import RUN_ID, record_run
from telemetry.wire.control import Hello
from telemetry.wire.events import Count, Mark, Sample
from telemetry.wire.journal import RunState
from telemetry.wire.request_log import LoggedRecords

_VALUES: Final = (
    *(("name", text) for text in ("../../../outside/x", "a\0b", "/tmp/x", "", "x" * 100_000)),
    *(("started_ns", number) for number in (1 << 63, (1 << 63) - 1, -1, 1 << 40)),
    *(("directory", text) for text in ("../outside", "/dev/zero", "a\0b")),
    ("elapsed_s", 1e300),
    ("time_ns", 1 << 62),
    ("pid", 1 << 70),
    ("cwd", "/dev/zero"),
    ("config", {"upstream": {"address": "ipc://../outside/x"}}),
    ("nodes", [{"node": "../../outside", "leaf": "../../outside", "directory": "../../outside"}]),
    ("backends", [{"name": "../../outside", "kind": "jsonl"}]),
)
HUGE: Final = 1 << 40
"""Size of a file without blocks on the disk, as `tar --sparse` unpacks it."""
HUGE_FRAME: Final = 200 << 20
FOLDERS: Final = ("journal", "history", "records", "requests", "upstream", "backends", "backends/lake", "artifacts")
_FILES: Final = (
    *("manifest.json", "final_snapshot.json", "daemon.log", "output.log", "capture.log", "gates.json"),
    *("gates_so_far.json", "ending_gate.json"),
    *("sources.json", "history.hlog", "journal/00000000.seg", "journal/00000001.seg", "history/keys.jsonl"),
    *("history/cap.txt", "history/slices.seg", "history/1s-*.seg", "history/60s-*.seg", "records/records.jsonl"),
    *("requests/requests.log", "upstream/00000000.seg", "upstream/root", "backends/lake/lock"),
    *("backends/lake/writer.json", "backends/lake/checkpoint.json", "backends/lake/writer.log"),
)
_ADDRESSES: Final = (
    "ipc://{outside}/new",
    "ipc://{outside}/folder/ctl",
    "ipc://{outside}/socket",
    "tcp://0.0.0.0:9",
)
_IDS: Final = (
    "../../outside/x",
    "x/../../../outside",
    "/tmp/x",
    "..",
    ".",
    "",
    "a\0b",
    "a\n",
    "x" * 5_000,
    "a b",
    "é",
)


class Place(NamedTuple):
    """A run directory that is about to be changed, and a folder outside of it that must stay as it is."""

    run: Path
    outside: Path

    def path(self, name: str) -> Path:
        """Return the path of a file or folder, in a folder that exists. A pattern names its first file."""
        if "*" in name:
            return next(iter(sorted(self.run.glob(name))), self.run / name.replace("*", "0000000000-0"))
        (self.run / name).parent.mkdir(parents=True, exist_ok=True)
        return self.run / name

    def copy(self, name: str) -> Path:
        """Move a file or folder outside, where it is as good as before, and return its new path."""
        target, here = self.outside / name.replace("/", "-").replace("*", "0"), self.path(name)
        with suppress(FileNotFoundError):
            os.rename(here, target)
        if not target.exists():
            target.write_bytes(b"precious\n") if "." in name or name.endswith(("lock", "root")) else target.mkdir()
        return target


class Change(NamedTuple):
    name: str
    apply: Callable[[Place], None]


def make_good(root: Path, sockets: Path, run_id: str = RUN_ID) -> Path:
    """Create a run that has ended, with all files of a run. Return the path of its directory."""
    path = record_run(root, steps=40).path
    write_journal(path / "journal", run_id)
    log = RequestLogWriter(path / "requests")
    log.append([LoggedRecords("p", 0, 0, [])], 0)
    log.close()
    for name in ("manifest.json", "final_snapshot.json"):
        set_fields(path / name, run_id=run_id)
    addresses = [f"ipc://{sockets}/{name}" for name in ("ctl", "ev", "sn", "rec")]
    set_fields(path / "manifest.json", endpoint=addresses[0], endpoints=addresses)
    return path


def write_journal(folder: Path, run_id: str) -> None:
    """Write a journal of a few events, in three segments."""
    clock = FakeClock()
    now_ns, wall_ns = clock.monotonic_ns(), clock.wall_ns()
    run = RunState(
        run_id=run_id, name="sample", started_ns=wall_ns, started_mono_ns=now_ns, rolled_wall_ns=wall_ns,
        rolled_mono_ns=now_ns,
    )  # fmt: skip
    numbers = Numbers(Aggregator(AggregatorConfig()), run)
    journal = JournalWriter(folder, numbers.checkpoint(), now_ns)
    book = WriteAheadLog(numbers, journal, clock, now_ns)
    book.hello(Hello(producer="p", name="p"))
    for seq in range(2):
        records = [Count("n"), Mark("a"), Sample("s", 1.25), ended([seq])]
        book.turn([bytes(frame("p", seq, len(records) * seq, records=records))])
        journal.begin(numbers.checkpoint(), clock.monotonic_ns())
    journal.close()


def changes() -> Iterator[Change]:
    """Yield all changes, the same ones at every call."""
    for (kind, apply), name in product(_OF_FILES.items(), _FILES):
        yield Change(f"{kind}: {name}", partial(apply, name=name))
    for (kind, apply), name in product(_OF_FOLDERS.items(), FOLDERS):
        yield Change(f"{kind}: {name}", partial(apply, name=name))
    for file, run_id in product(("manifest.json", "final_snapshot.json"), _IDS):
        yield Change(f"run id {run_id[:20]!r} in {file}", partial(_give_id, file=file, run_id=run_id))
    for run_id in _IDS:
        yield Change(f"run id {run_id[:20]!r} in the journal", partial(_give_journal_id, run_id=run_id))
    for file, (field, value) in product(("manifest.json", "final_snapshot.json"), _VALUES):
        yield Change(f"{field} {value!r:.20} in {file}", partial(_give_value, file=file, field=field, value=value))
    for address in _ADDRESSES:
        yield Change(f"address {address}", partial(_give_address, address=address))


# --- changes -----------------------------------------------------------------------------------------


def _to_copy(place: Place, name: str) -> None:
    place.path(name).symlink_to(place.copy(name))


def _to_nothing(place: Place, name: str) -> None:
    _remove(path := place.path(name))
    path.symlink_to(place.outside / "missing")


def _to_zeros(place: Place, name: str) -> None:
    _remove(path := place.path(name))
    path.symlink_to("/dev/zero")


def _hard(place: Place, name: str) -> None:
    copy = place.copy(name)
    place.path(name).hardlink_to(copy)


def _fifo(place: Place, name: str) -> None:
    _remove(path := place.path(name))
    os.mkfifo(path)


def _device(place: Place, name: str) -> None:
    _fifo(place, name)
    if os.geteuid() == 0:
        _remove(path := place.path(name))
        with suppress(PermissionError):  # in a container
            os.mknod(path, 0o600 | S_IFCHR, os.makedev(1, 5))


def _huge(place: Place, name: str) -> None:
    """Append zeros without end to a file."""
    with place.path(name).open("ab") as file:
        file.truncate(HUGE)


def _huge_frame(place: Place, name: str) -> None:
    """Append an intact frame of zeros that is larger than any of ours."""
    tail = pack("<QB", 1 << 40, 2)
    with place.path(name).open("ab") as file:
        file.write(pack("<II", HUGE_FRAME, crc32(bytes(HUGE_FRAME), crc32(tail))) + tail)
        file.truncate(file.tell() + HUGE_FRAME)


def _above(place: Place, name: str) -> None:
    _remove(path := place.path(name))
    path.symlink_to(place.outside)


_OF_FILES: Final[dict[str, Callable[..., None]]] = {
    "link to a copy": _to_copy,
    "link to nothing": _to_nothing,
    "link to zeros": _to_zeros,
    "hard link": _hard,
    "pipe": _fifo,
    "device": _device,
    "huge": _huge,
    "huge frame": _huge_frame,
}
_OF_FOLDERS: Final[dict[str, Callable[..., None]]] = {
    "link to a copy": _to_copy,
    "link to nothing": _to_nothing,
    "link to many folders": _above,
    "pipe": _fifo,
}


def _give_id(place: Place, file: str, run_id: str) -> None:
    """Set the id in a file, but not in the name of the directory, which has an id too."""
    set_fields(place.run / file, run_id=run_id)


def _give_journal_id(place: Place, run_id: str) -> None:
    """Write a journal with this id, and remove the manifest, whose id would count."""
    _remove(place.run / "journal")
    _remove(place.run / "manifest.json")
    write_journal(place.run / "journal", run_id)


def _give_value(place: Place, file: str, field: str, value: object) -> None:
    set_fields(place.run / file, **{field: value})


def _give_address(place: Place, address: str) -> None:
    path = address.format(outside=place.outside)
    set_fields(
        place.run / "manifest.json", endpoint=path, endpoints=[path, f"{path}.ev", f"{path}.sn", f"{path}.rec"]
    )


def set_fields(path: Path, **fields: object) -> None:
    """Set fields of a JSON file, without the checksum."""
    if path.exists():
        document = json.loads(path.read_bytes())
        document.pop("crc", None)
        path.write_text(json.dumps(document | fields))


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
