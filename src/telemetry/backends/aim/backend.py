"""A backend that writes a run of Aim: values of steps by axis, readings by time, texts, images, distributions.

A value that is tracked again at a step replaces the old one: a correction, or a repeated delivery. Aim's own tools
show a run once `aim up` has scanned the repository.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from msgspec import Struct

from telemetry.backends import pictures
from telemetry.backends.backend import NotConfigured, Refused, RunFacts, Unavailable, missing
from telemetry.backends.items import Artifact, Histogram, Item, Mark, Params, Reading, Step, Text
from telemetry.backends.naming import FINAL, flat
from telemetry.common.wording import labelled
from telemetry.store.append_file import describe
from telemetry.wire.events import Scalar

_PARTS: Final = ("sequence_infos", "_init_sequence_info", "_update_context_data", "_update_sequence_info", "_track")
_FIELDS: Final = ("val_view", "step_view", "epoch_view", "time_view")
Cell = tuple[float, float, int]
"""(from, to, count)."""
BINS: Final = 64
_NARROWEST: Final = 1e-9  # relative to the larger end, so that equal values are still visible
CLOCK: Final = {"clock": "elapsed_s"}
"""Context of readings. The context of steps is `{"axis": …}`."""
MARKS: Final = "marks"
_POINTS: Final = 50_000  # written at once: takes a second and 30 MB
_WRITE_S: Final = 30.0  # per call; the writer ends a call as hung after twice as long
_REMEMBERED: Final = 1_000  # steps whose objects are remembered, to add more of the same name
_INT64: Final = 1 << 63


class AimOptions(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    repo: str = ""
    """Directory of the repository `.aim`, which is created if missing. Empty: folder of the writer."""
    experiment: str = ""
    """Name of the experiment. Empty: name of the run."""
    run_name: str = ""
    """Name of the run in Aim. Empty: name of the run directory."""
    spread: bool = False
    """True to write `name/min` and `name/max` of values that several producers reported in a step."""


class AimBackend:
    """The Aim backend. The run's hash in Aim is derived from its id, so a repository contains each run once."""

    Options: ClassVar[type[Struct]] = AimOptions
    takes: ClassVar[tuple[type[Item], ...]] = (Step, Reading, Params, Mark, Text, Histogram, Artifact)
    idempotent: ClassVar[bool] = True

    def __init__(self, options: AimOptions, place: Path) -> None:
        if "://" in options.repo:
            raise NotConfigured(
                f"aim: {options.repo} is not a directory", hint="it writes only to repositories on a local disk"
            )
        self._options = options
        self._root = Path(options.repo).expanduser().absolute() if options.repo else place
        self._facts: RunFacts
        self._run: Any = None
        self._sequences: Sequences | None = None
        self._hash = ""
        self._points: dict[tuple[tuple[str, str], ...], dict[str, list[AimPoint]]] = {}
        self._waiting = 0
        self._complete: list[str] = []
        """Keys of items whose points are waiting or written."""
        self._written: set[str] = set()
        """Keys written since the last `flush`. After a failure they arrive again and are skipped."""
        self._refused: list[str] = []
        self._until_s = 0.0
        self._at: dict[tuple[str, str, str, int], dict[str, Any]] = {}
        """(kind, axis, name, step) → item key → object. Several producers may each have an object there."""

    def open(self, run: RunFacts, state: dict[str, Any]) -> None:
        self._facts = run
        self._hash = state.get("run") or sha256(run.run_id.encode()).hexdigest()[:24]
        self._release()
        if state and not self._chunk().is_dir():
            raise NotConfigured(
                f"aim: the run {self._hash} no longer exists in {self._root}",
                hint="export again under another name: aim:as=…",
            )
        _library()
        try:
            self._root.mkdir(parents=True, exist_ok=True)
        except (FileNotFoundError, FileExistsError, NotADirectoryError, PermissionError) as error:
            raise NotConfigured(f"aim: {describe(error)}") from error
        with self._calling():
            self._begin()

    def write(self, items: Sequence[Item]) -> None:
        self._until_s = time.monotonic() + _WRITE_S
        self._refused = []
        with self._calling():
            if self._run is None:  # the run was closed after a failure
                self._begin()
            for item in items:
                if item.key in self._written:
                    continue
                if isinstance(item, Text | Histogram) and item.axis and item.step < 0:
                    self._refused.append(item.key)  # Aim finds objects only from step 0 on
                    continue
                self._put(item)
                self._complete.append(item.key)
                if self._waiting >= _POINTS:
                    self._store()
                if time.monotonic() > self._until_s:
                    self._store()
                    raise Unavailable("Aim is slow; the rest is retried")
            self._store()
        if self._refused:
            raise Refused("negative_step", self._refused)

    def flush(self) -> None:
        """Forget the keys of written items. No data waits here: `write` returns when they are in Aim's database."""
        self._written.clear()

    def state(self) -> dict[str, Any]:
        return {"run": self._hash}

    def close(self, *, final: bool) -> None:
        """Close the run. Aim marks a closed run as finished, and a reopened one as active."""
        with self._calling():
            if final and self._run is None:
                self._begin()
            self._release()

    def where(self) -> str:
        return str(self._root) if self._hash else ""

    # --- run -----------------------------------------------------------------------------------------

    def _begin(self) -> None:
        try:
            from aim.sdk.repo import Repo
            from aim.sdk.run import Run
        except ImportError as error:
            raise missing(error.name or "aim", "aim", error) from error
        self._root.mkdir(parents=True, exist_ok=True)
        repo = Repo.from_path(str(self._root), init=not Repo.exists(str(self._root)))
        began = datetime.fromtimestamp(self._facts.started_ns / 1e9, UTC).replace(tzinfo=None)
        exists = self._chunk().is_dir()
        # A directory is enough for Aim to know a run, and callers may choose the hash.
        self._chunk().mkdir(parents=True, exist_ok=True)
        properties = repo.request_props(self._hash, read_only=False, created_at=began)
        directory = self._facts.directory
        properties.name = self._options.run_name or (
            directory.name if directory is not None else self._facts.run_id
        )
        properties.experiment = self._options.experiment or self._facts.name or "telemetry"
        # An old holder of Aim's lock is a dead writer: a live one also holds the database's lock.
        self._run = Run(
            self._hash, repo=repo, force_resume=exists, system_tracking_interval=None, capture_terminal_logs=False
        )
        self._sequences = Sequences(self._run)
        self._run.set("telemetry", {"run_id": self._facts.run_id, "host": self._facts.host})

    def _chunk(self) -> Path:
        return self._root / ".aim" / "meta" / "chunks" / self._hash

    def _release(self) -> None:
        """Close all files of the run: after a failure a database accepts no writes until it is reopened."""
        run, self._run, self._sequences = self._run, None, None
        self._points, self._waiting, self._complete, self._at = {}, 0, [], {}
        if run is not None:
            run.close()
            del run
            gc.unfreeze()  # the writer froze existing objects after it had opened the backend
            gc.collect()  # the database closes when its last view is freed

    # --- items ---------------------------------------------------------------------------------------

    def _put(self, item: Item) -> None:
        time_s = item.time_ns / 1e9
        if isinstance(item, Step):
            values = self._with_spread(item) if self._options.spread else item.values
            self._numbers({"axis": item.axis}, values, item.step, time_s)
        elif isinstance(item, Reading):
            self._reading(item, time_s)
        elif isinstance(item, Params):
            for name, value in item.values.items():
                self._run.set(("params", name), _storable(value))
        elif isinstance(item, Mark):
            labels = ", ".join(f"{key}={value}" for key, value in sorted(item.labels.items()))
            self._text(item, "mark", MARKS, f"{item.text} ({labels})" if labels else item.text)
        elif isinstance(item, Text):
            self._text(item, "text", item.name, item.text)
        elif isinstance(item, Histogram):
            mine = list(zip(item.edges, item.edges[1:], item.counts, strict=False))
            together = self._together(item, "distribution", item.name, mine)
            self._distribution(self._context(item, "distribution"), item.name, together, self._step(item), time_s)
        elif isinstance(item, Artifact):
            self._artifact(item)

    def _numbers(self, context: dict[str, str], values: dict[str, float], step: int, time_s: float) -> None:
        rows = self._points.setdefault(tuple(context.items()), {})
        for name, value in values.items():
            rows.setdefault(name, []).append(AimPoint(step, float(value), time_s))
        self._waiting += len(values)

    def _reading(self, item: Reading, time_s: float) -> None:
        second = math.ceil(item.elapsed_s)
        self._numbers(CLOCK, flat(item), second, time_s)
        for series in item.series:
            name = (FINAL if item.final else "") + labelled(series.name, series.labels)
            self._distribution({**CLOCK, "kind": "distribution"}, name, [series.cells], second, time_s)

    def _distribution(
        self, context: dict[str, str], name: str, parts: Sequence[Sequence[Cell]], step: int, time_s: float
    ) -> None:
        from aim.sdk.objects.distribution import Distribution

        bins = even(cell for part in parts for cell in part)
        if bins is not None:
            distribution = Distribution.from_histogram(bins.weights, (bins.low, bins.high))
            self._opened().put(context, name, step, distribution, time_s)

    def _text(self, item: Mark | Text, kind: str, name: str, text: str) -> None:
        from aim.sdk.objects.text import Text as AimText

        together = self._together(item, kind, name, AimText(text))
        self._opened().put(self._context(item, kind), name, self._step(item), together, item.time_ns / 1e9)

    def _artifact(self, item: Artifact) -> None:
        about = {"uri": item.uri, "kind": item.kind, "axis": item.axis, "step": item.step}
        self._run.set(("files", item.name, item.key), about)
        if item.kind != "image":
            return
        image = _image(item.uri) if not item.axis or item.step >= 0 else None
        if image is not None:
            together = self._together(item, "image", item.name, image)
            self._opened().put(
                self._context(item, "image"), item.name, self._step(item), together, item.time_ns / 1e9
            )

    def _together(self, item: Item, kind: str, name: str, value: Any) -> list[Any]:
        """Return this object together with others known at the same step."""
        key = (kind, getattr(item, "axis", ""), name, self._step(item))
        there = self._at.pop(key, {}) | {item.key: value}
        while len(self._at) >= _REMEMBERED:
            del self._at[next(iter(self._at))]
        self._at[key] = there
        return list(there.values())

    def _context(self, item: Item, kind: str) -> dict[str, str]:
        axis: str = getattr(item, "axis", "")
        return {"axis": axis, "kind": kind} if axis else {"clock": "elapsed_ms", "kind": kind}

    def _step(self, item: Item) -> int:
        """Return the item's step, or milliseconds since the start for an item without a step."""
        if getattr(item, "axis", ""):
            return int(getattr(item, "step", 0))
        return max(0, item.time_ns - self._facts.started_ns) // 1_000_000

    @staticmethod
    def _with_spread(item: Step) -> dict[str, float]:
        lows = {f"{name}/min": spread.min for name, spread in item.spread.items()}
        highs = {f"{name}/max": spread.max for name, spread in item.spread.items()}
        return lows | highs | item.values

    # --- writes --------------------------------------------------------------------------------------

    def _store(self) -> None:
        points, self._points, self._waiting = self._points, {}, 0
        for context, rows in points.items():
            self._opened().write(dict(context), rows)
        self._written.update(self._complete)
        self._complete.clear()

    def _opened(self) -> Sequences:
        assert self._sequences is not None
        return self._sequences

    @contextmanager
    def _calling(self) -> Iterator[None]:
        """Translate errors of Aim's databases. After an error the run is closed and reopened."""
        try:
            yield
        except (NotConfigured, Unavailable):
            raise
        except Exception as error:
            self._release()
            if not _of_a_disk(error):
                raise
            raise Unavailable(" ".join(f"{type(error).__name__}: {error}".split())[:300]) from error


def _library() -> None:
    """Import Aim. Raises NotConfigured if it is missing, and ImportError if it is broken."""
    try:
        import aim.sdk.run  # noqa: F401 – checks only that the import works
    except ModuleNotFoundError as error:
        raise missing(error.name or "aim", "aim") from error


def _of_a_disk(error: Exception) -> bool:
    """Check for a failed write or lock of a file. Aim's databases have their own exceptions for that."""
    from aim.sdk.errors import RunLockingError
    from aimrocks import errors
    from sqlalchemy.exc import OperationalError

    return isinstance(error, OSError | RunLockingError | OperationalError | errors.RocksIOError)


def _image(uri: str) -> Any:
    """Return a file as Aim's image. None if it is remote, too large or not an image."""
    from aim.sdk.objects.image import Image
    from PIL.Image import open as opened

    data = pictures.read(uri)
    try:
        return Image(opened(BytesIO(data))) if data else None
    except (OSError, ValueError):
        return None


def _storable(value: Scalar) -> Scalar:
    """Convert an integer beyond Aim's 64 bits to text."""
    return str(value) if isinstance(value, int) and not -_INT64 <= value < _INT64 else value


class AimBins(NamedTuple):
    weights: list[float]
    """Counts of the bins. Their sum is the number of values."""
    low: float
    high: float


def even(cells: Iterable[Cell]) -> AimBins | None:
    """Return `BINS` bins over the non-empty cells, or None without values. Values spread evenly over their cell."""
    full = [(start, stop, count) for start, stop, count in cells if count > 0]
    if not full:
        return None
    low = min(start for start, _, _ in full)
    high = max(stop for _, stop, _ in full)
    narrowest = max(abs(low), abs(high), 1.0) * _NARROWEST
    if high - low < narrowest:  # widen towards zero, where floats have room
        low, high = (low - narrowest, high) if low > 0.0 else (low, high + narrowest)
    weights = [0.0] * BINS
    for start, stop, count in full:
        # Scale before subtracting: the difference of the largest and the smallest float overflows.
        first = (start / BINS - low / BINS) / (high / BINS - low / BINS) * BINS
        last = (stop / BINS - low / BINS) / (high / BINS - low / BINS) * BINS
        _spread(weights, first, last, count)
    return AimBins(weights, low, high)


def _spread(weights: list[float], first: float, last: float, count: int) -> None:
    """Distribute `count` over bins, in proportion to their overlap with the range."""
    begin, end = min(int(first), BINS - 1), min(int(last), BINS - 1)
    if begin == end:
        weights[begin] += count
        return
    width = last - first
    for number in range(begin, end + 1):
        weights[number] += count * (min(last, number + 1) - max(first, number)) / width


# `Run.track` stamps a value with the time of the call and takes ten times as long, because it deletes existing data
# of a step first. This module uses the internals of `Run.track` for many values of a name at once. A step has a
# single value; a later one replaces it.


class AimPoint(NamedTuple):
    step: int
    value: float
    time_s: float
    """Wall-clock time in seconds."""


class Sequences:
    """The sequences of a run that is open for writing. Writes survive the end of this process once they return."""

    def __init__(self, run: Any) -> None:
        """Open the sequences. Raises NotConfigured if this release of Aim has other internals."""
        self._tracker = run._tracker
        absent = [part for part in _PARTS if not hasattr(self._tracker, part)]
        if absent:
            raise NotConfigured(
                f"this release of aim is not supported: it lacks {', '.join(absent)}",
                hint="pip install 'aim==3.29.*'",
            )
        from aim.storage import encoding
        from aim.storage.context import Context

        self._meta = run.repo.request_container("meta", run.hash, read_only=False)
        self._container = run.repo.request_container("seqs", run.hash, read_only=False)
        self._encoding = encoding
        self._context = Context

    def write(self, context: Mapping[str, str], points: Mapping[str, Sequence[AimPoint]]) -> None:
        """Write numbers by name, in the given order."""
        where = self._context(dict(context))
        with _at_once(self._meta), _at_once(self._container) as batch:
            self._tracker._update_context_data(where)
            for name, ours in points.items():
                if ours:
                    self._write(where.idx, name, ours, batch)

    def put(self, context: Mapping[str, str], name: str, step: int, value: object, time_s: float) -> None:
        """Write an object of Aim's, such as a text."""
        self._tracker._track(value, time_s, name, step, None, context=dict(context))

    def _write(self, context: int, name: str, points: Sequence[AimPoint], batch: Any) -> None:
        info = self._tracker.sequence_infos[context, name]
        if not info.initialized:
            self._tracker._init_sequence_info(context, name, points[0].value)
        points = list({point.step: point for point in points}.values())  # the last value of a step counts
        ends = telling(points)
        newest = max(ends, key=_step)
        if info.count == newest.step + 1:
            info.count = newest.step  # a correction of the newest step is the newest value
        for point in ends:
            self._tracker._update_sequence_info(context, name, point.value, point.step)
        values, steps, epochs, times = (getattr(info, field).tree.container for field in _FIELDS)
        encode = self._encoding.encode
        nothing = encode(None)
        for step, value, time_s in points:
            key = self._encoding.encode_path(info.step_hash_fn(step))
            values.set(key, encode(value), store_batch=batch)
            steps.set(key, encode(step), store_batch=batch)
            epochs.set(key, nothing, store_batch=batch)
            times.set(key, encode(time_s), store_batch=batch)


@contextmanager
def _at_once(container: Any) -> Iterator[Any]:
    """Collect all writes to a database and commit them together at the end."""
    batch = container.batch()
    container.batch = lambda: batch
    container.commit = lambda _: None
    try:
        yield batch
    finally:
        del container.batch, container.commit
    container.commit(batch)


def telling(points: Sequence[AimPoint]) -> list[AimPoint]:
    """Return the points that define first, last, minimum and maximum of a sequence, in this order, one per step."""
    extremes = [points[0], max(points, key=_step)]
    real = [point for point in points if not math.isnan(point.value)]
    if real:
        extremes += [min(real, key=_value), max(real, key=_value)]
    return list({point.step: point for point in extremes}.values())


def _step(point: AimPoint) -> int:
    return point.step


def _value(point: AimPoint) -> float:
    return point.value
