"""A backend that writes a run of MLflow: values as metrics, parameters as params, other items as artifacts.

A row of a metric consists of key, time, step and value, and MLflow stores equal rows once. So a repeated write has
no effect. A correction adds a row to its step, with a later time.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, NoReturn
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from telemetry.backends import pictures
from telemetry.backends.backend import NotConfigured, RunFacts, Unavailable, missing
from telemetry.backends.items import Artifact, Item, Params, Reading, Step, Table, Text
from telemetry.backends.mlflow import files
from telemetry.backends.mlflow.names import SECONDS, Keys, cleaned
from telemetry.backends.naming import flat

_WORDS_CHARS: Final = 300
_WRAPPED: Final = " with exception "  # the text after it repeats the reason several times
_PASSING: Final = (408, 409, 429, 499)  # of a server; also all errors from 500 on
_THINGS: Final = 1_000
_PARAMS: Final = 100
_TAGS: Final = 100
_BYTES: Final = 800_000  # of 1,000,000; the largest tag takes 96,000 as JSON
_AROUND: Final = 200  # bytes of a metric as JSON, without its name
RUN_TAG: Final = "telemetry.run_id"
_PARAM_TAG: Final = "telemetry.param"
_TAG_CHARS: Final = 8_000  # MLflow truncates longer values
_WRITE_S: Final = 30.0  # per call; the writer ends a call as hung after twice as long
_ENVIRONMENT: Final = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
    # One retry, for a connection that the server has closed; the writer does all other retries.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "0",
    "MLFLOW_HTTP_REQUEST_BACKOFF_JITTER": "0",
    "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "12",
}


class MLflowOptions(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    uri: str = ""
    """Address of the tracking server or database.

    Empty: MLFLOW_TRACKING_URI, or a database in the writer's folder.
    """
    experiment: str = ""
    """Name of the experiment. Empty: MLFLOW_EXPERIMENT_NAME, or the name of the run."""
    run_name: str = ""
    """Name of the run in MLflow. Empty: name of the run directory."""
    artifacts: str = ""
    """Place for the files of a new experiment. Empty: chosen by the server; next to an SQLite database."""
    spread: bool = False
    """True to write `name/min` and `name/max` of values that several producers reported in a step."""


class MLflowBackend:
    """The MLflow backend. It finds the run again by its id, so an experiment contains each run once."""

    Options: ClassVar[type[Struct]] = MLflowOptions
    takes: ClassVar[tuple[type[Item], ...]] = (Step, Reading, Params, Text, Table, Artifact)
    idempotent: ClassVar[bool] = True

    def __init__(self, options: MLflowOptions, place: Path) -> None:
        self._options = options
        self._uri = options.uri or os.environ.get("MLFLOW_TRACKING_URI", "") or f"sqlite:///{place / 'mlflow.db'}"
        scheme = self._uri.partition(":")[0].lower()
        self._remote = scheme in ("http", "https", "databricks", "uc", "databricks-uc")
        if not self._remote and (scheme == "file" or "://" not in self._uri):
            raise NotConfigured(
                f"mlflow: {_shown(self._uri)} is a file store, which can't have both `a` and `a/b` as metrics",
                hint="use a server or a database, such as uri=sqlite:////data/mlflow.db",
            )
        self._place = place
        self._client: Any = None
        self._run_id = ""
        self._experiment = ""
        self._keys = Keys()
        self._params: dict[str, str] = {}
        """Params that MLflow already has; MLflow does not allow changes to them."""
        self._changed: set[str] = set()
        """Tags that hold changed values of params."""
        self._newest_ms = 0
        self._batch = Batch()
        self._complete: list[str] = []
        """Keys of items that are complete in the batch or need no request."""
        self._written: set[str] = set()
        """Keys sent since the last `flush`. After a failure they arrive again and are skipped."""
        self._until_s = 0.0

    def open(self, run: RunFacts, state: dict[str, Any]) -> None:
        if state and state["uri"] != _shown(self._uri):
            raise NotConfigured(
                f"mlflow: this writer started with {state['uri']}, but MLflow now uses {_shown(self._uri)}",
                hint="give the new writer another name: mlflow:as=…",
            )
        os.environ.update(_ENVIRONMENT)
        self._keys = Keys(state.get("axes"))
        self._newest_ms = state.get("newest_ms", run.started_ns // 1_000_000)
        self._batch, self._complete, self._written = Batch(), [], set()
        _library()
        with self._calling(opening=True):
            self._client = self._connect()
            self._experiment = state.get("experiment") or self._find_experiment(run)
            self._run_id = state.get("run") or self._find_run(run)
            data = self._resumed().data
            self._params = dict(data.params)
            self._changed = {key for key in data.tags if key.startswith(_PARAM_TAG)}

    def write(self, items: Sequence[Item]) -> None:
        self._until_s = time.monotonic() + _WRITE_S
        with self._calling():
            try:
                for item in items:
                    if item.key not in self._written:
                        self._put(item)
                        self._newest_ms = max(self._newest_ms, item.time_ns // 1_000_000)
                        if isinstance(item, Text | Table | Artifact):
                            self._written.add(item.key)
                        else:
                            self._complete.append(item.key)
                self._send()
            except BaseException:
                self._batch, self._complete = Batch(), []
                raise

    def flush(self) -> None:
        """Forget sent keys: MLflow commits each request before it answers."""
        self._written.clear()
        self._complete.clear()

    def state(self) -> dict[str, Any]:
        return {
            "uri": _shown(self._uri),
            "experiment": self._experiment,
            "run": self._run_id,
            "axes": self._keys.owners,
            "newest_ms": self._newest_ms,
        }

    def close(self, *, final: bool) -> None:
        if final:
            with self._calling():
                self._client.set_terminated(self._run_id, status="FINISHED", end_time=self._newest_ms)

    def where(self) -> str:
        if not self._run_id:
            return ""
        if self._uri.startswith("http"):
            return f"{_shown(self._uri).rstrip('/')}/#/experiments/{self._experiment}/runs/{self._run_id}"
        return _shown(self._uri)

    # --- the run -------------------------------------------------------------------------------------

    def _connect(self) -> Any:
        from mlflow.tracking import MlflowClient

        if not self._remote:
            import mlflow.store.db.utils

            mlflow.store.db.utils.MAX_RETRY_COUNT = 1  # ten retries would exceed the timeout of a call
        return MlflowClient(tracking_uri=self._uri)

    def _find_experiment(self, run: RunFacts) -> str:
        name = self._options.experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME", "") or run.name or "telemetry"
        experiment = self._client.get_experiment_by_name(name)
        if experiment is None:
            try:
                return str(self._client.create_experiment(name, artifact_location=self._artifacts()))
            except kinds(self._remote)[0] as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
                experiment = self._client.get_experiment_by_name(name)  # another process has just created it
        if experiment.lifecycle_stage != "active":
            raise NotConfigured(
                f"mlflow: the experiment {name} is deleted",
                hint="restore it in MLflow, or choose another: experiment=…",
            )
        return str(experiment.experiment_id)

    def _artifacts(self) -> str | None:
        if self._options.artifacts or self._remote:
            return self._options.artifacts or None
        if self._uri.startswith("sqlite:///"):
            database = Path(self._uri.removeprefix("sqlite:///").partition("?")[0])
            return str(database.absolute().parent / "mlartifacts")
        return str(self._place / "mlartifacts")

    def _find_run(self, run: RunFacts) -> str:
        """Return the MLflow run of this run's id, perhaps from a writer that died, or create one."""
        runs = self._client.search_runs(
            [self._experiment], filter_string=f"tags.`{RUN_TAG}` = '{run.run_id}'", max_results=1
        )
        if runs:
            return str(runs[0].info.run_id)
        tags = {RUN_TAG: run.run_id, "mlflow.source.name": "telemetry"} | (
            {"telemetry.host": run.host} if run.host else {}
        )
        name = self._options.run_name or (run.directory.name if run.directory is not None else run.run_id)
        new_run = self._client.create_run(
            self._experiment, start_time=run.started_ns // 1_000_000, tags=tags, run_name=name
        )
        return str(new_run.info.run_id)

    def _resumed(self) -> Any:
        """Return the run, set to running again. Raises NotConfigured if it was deleted."""
        try:
            run = self._client.get_run(self._run_id)
        except kinds(self._remote)[0] as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            self._gone()
        if run.info.lifecycle_stage != "active":
            self._gone()
        if run.info.status != "RUNNING":
            self._client.update_run(self._run_id, status="RUNNING")
        return run

    def _gone(self) -> NoReturn:
        raise NotConfigured(
            f"mlflow: the run {self._run_id} is deleted", hint="restore it in MLflow, or export again: mlflow:as=…"
        )

    # --- items ---------------------------------------------------------------------------------------

    def _put(self, item: Item) -> None:
        time_ms = item.time_ns // 1_000_000
        if isinstance(item, Step):
            self._points(item.axis, item.values, time_ms, item.step)
            if self._options.spread and item.spread:
                lows = {f"{name}/min": spread.min for name, spread in item.spread.items()}
                highs = {f"{name}/max": spread.max for name, spread in item.spread.items()}
                extremes = {name: value for name, value in (lows | highs).items() if name not in item.values}
                self._points(item.axis, extremes, time_ms, item.step)
        elif isinstance(item, Reading):
            self._points(SECONDS, flat(item), time_ms, int(item.elapsed_s))
        elif isinstance(item, Params):
            for name, value in item.values.items():
                self._param(name, str(value))
        elif isinstance(item, Text):
            self._file(files.folder(item), files.leaf(item, ".txt"), item.text.encode("utf-8", "replace"))
        elif isinstance(item, Table):
            self._file(files.folder(item), files.leaf(item, ".json"), files.table(item))
        elif isinstance(item, Artifact):
            self._artifact(item)

    def _points(self, axis: str, values: dict[str, float], time_ms: int, step: int) -> None:
        for name, value in values.items():
            self._batch.put(MLflowPoint(self._keys.of(axis, name), float(value), time_ms, step))
            self._send_full()

    def _param(self, name: str, value: str) -> None:
        """Write a param.

        The first value becomes the param; later values become a tag, even if they arrive again.
        """
        key = self._keys.short(cleaned(name))
        tag = self._keys.short(f"{_PARAM_TAG}/{cleaned(name)}")
        there = self._params.get(key, self._batch.params.get(key))
        if there is None:
            self._batch.param(key, value)
        elif there != value or tag in self._changed:
            self._changed.add(tag)
            self._batch.tag(tag, value[:_TAG_CHARS])
        self._send_full()

    def _artifact(self, item: Artifact) -> None:
        """Upload an image if this machine can read it. Otherwise write a reference."""
        data = pictures.read(item.uri) if item.kind == "image" else None
        if data is not None:
            self._file(files.folder(item), files.leaf(item, files.ending(item.uri)), data)
        else:
            self._file(files.folder(item), files.leaf(item, ".json"), files.reference(item))

    def _file(self, folder: str, name: str, data: bytes) -> None:
        if time.monotonic() > self._until_s:
            raise Unavailable("MLflow is slow with files; the rest is retried")
        with tempfile.TemporaryDirectory(prefix="telemetry-") as here:
            path = Path(here, name)
            path.write_bytes(data)
            try:
                self._client.log_artifact(self._run_id, str(path), folder)
            except OSError as error:
                status = getattr(getattr(error, "response", None), "status_code", 0)
                if 400 <= status < 500 and status not in (408, 429):
                    raise ValueError(f"MLflow rejects the file: {error}") from error
                raise

    # --- requests ------------------------------------------------------------------------------------

    def _send_full(self) -> None:
        if self._batch.full:
            self._send()

    def _send(self) -> None:
        """Send the batch in one request, and more requests if many names need tags.

        Complete items count as written.
        """
        from mlflow.entities import Metric, Param, RunTag

        while self._batch or self._keys.tags:
            if time.monotonic() > self._until_s:
                raise Unavailable("MLflow is slow; the rest is retried")
            batch, self._batch = self._batch, Batch()
            named = []
            for key, value in self._keys.tags.items():
                if batch.full:
                    break
                batch.tag(key, value[:_TAG_CHARS])
                named.append(key)
            self._client.log_batch(
                self._run_id,
                # Newest first: in this order a database has the least work to track the latest values.
                metrics=[Metric(*point) for point in reversed(batch.points)],
                params=[Param(key, value) for key, value in batch.params.items()],
                tags=[RunTag(key, value) for key, value in batch.tags.items()],
                synchronous=True,
            )
            self._params |= batch.params
            self._written.update(self._complete)
            self._complete.clear()
            for key in named:
                del self._keys.tags[key]

    @contextmanager
    def _calling(self, *, opening: bool = False) -> Iterator[None]:
        """Translate errors of MLflow and its database to backend errors."""
        try:
            yield
        except kinds(self._remote) as error:
            raise meant(error, remote=self._remote, opening=opening) from error


def _library() -> None:
    """Import MLflow. Raises NotConfigured if it is missing, and ImportError if it is broken."""
    try:
        import mlflow.tracking  # noqa: F401 – checks only that the import works
    except ImportError as error:
        raise missing(error.name or "mlflow", "mlflow", error) from error


def _shown(uri: str) -> str:
    """Return an address without its password."""
    parts = urlsplit(uri)
    if not (parts.username or parts.password):
        return uri
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


class MLflowPoint(NamedTuple):
    """A value of a metric."""

    key: str
    value: float
    time_ms: int
    step: int


class Batch:
    """The content of a request. It starts empty. Check `full` after each addition."""

    def __init__(self) -> None:
        self.points: list[MLflowPoint] = []
        self.params: dict[str, str] = {}
        self.tags: dict[str, str] = {}
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self.points or self.params or self.tags)

    @property
    def full(self) -> bool:
        return (
            len(self.points) + len(self.params) + len(self.tags) >= _THINGS
            or len(self.params) >= _PARAMS
            or len(self.tags) >= _TAGS
            or self._bytes >= _BYTES
        )

    def put(self, point: MLflowPoint) -> None:
        self.points.append(point)
        self._bytes += _AROUND + (len(point.key) if point.key.isascii() else len(json.dumps(point.key)))

    def param(self, key: str, value: str) -> None:
        self.params[key] = value
        self._bytes += _AROUND + len(json.dumps([key, value]))

    def tag(self, key: str, value: str) -> None:
        self.tags[key] = value
        self._bytes += _AROUND + len(json.dumps([key, value]))


def kinds(remote: bool) -> tuple[type[Any], ...]:
    """Return MLflow's error class, then those of its database. Imports MLflow."""
    from mlflow.exceptions import MlflowException

    if remote:
        return (MlflowException,)
    from sqlalchemy.exc import SQLAlchemyError

    return MlflowException, SQLAlchemyError


def meant(error: Any, *, remote: bool, opening: bool) -> Exception:
    """Translate an error: Unavailable, NotConfigured, or ValueError for rejected data."""
    text = _words(error)
    code: str = getattr(error, "error_code", "")
    if not code:
        from sqlalchemy.exc import OperationalError

        return Unavailable(text) if isinstance(error, OperationalError) else NotConfigured(f"mlflow: {text}")
    status: int = error.get_http_status_code()
    if remote and status in (401, 403):  # a key that worked before may work again
        return NotConfigured(f"mlflow: {text}") if opening else Unavailable(text)
    if code == "TEMPORARILY_UNAVAILABLE" or (remote and (status >= 500 or status in _PASSING)):
        return Unavailable(text)
    if opening or code == "RESOURCE_DOES_NOT_EXIST" or "'active' state" in text:
        return NotConfigured(f"mlflow: {text}")
    return ValueError(text)


def _words(error: BaseException) -> str:
    """Return the text of an error. For a failed request: the request, and the innermost reason."""
    text = " ".join(str(error).split())
    request, wrapped, _ = text.partition(_WRAPPED)
    if wrapped:
        inner = error
        while (below := inner.__cause__ or inner.__context__) is not None:
            inner = below
        reason = " ".join(str(inner).split()) or type(inner).__name__
        text = text if inner is error else f"{request[: _WORDS_CHARS // 2]}: {reason}"
    return text[:_WORDS_CHARS]
