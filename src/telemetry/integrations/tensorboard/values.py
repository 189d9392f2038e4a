"""Names, steps, values and bins of what programs give to a SummaryWriter."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from math import inf, isfinite, nextafter
from typing import Any, Final
from weakref import WeakKeyDictionary

from telemetry.client.signal_safe import Locked

_NAMES: Final = 20_000  # names that are remembered; further ones are not checked for collisions

STANDARD: Final[Mapping[str, tuple[str, ...]]] = {
    "add_scalar": ("tag", "scalar_value", "global_step", "walltime"),
    "add_scalars": ("main_tag", "tag_scalar_dict", "global_step", "walltime"),
    "add_histogram": ("tag", "values", "global_step", "bins", "walltime", "max_bins"),
    "add_histogram_raw": (
        *("tag", "min", "max", "num", "sum", "sum_squares", "bucket_limits", "bucket_counts"),
        *("global_step", "walltime"),
    ),
    "add_text": ("tag", "text_string", "global_step", "walltime"),
    "add_hparams": ("hparam_dict", "metric_dict"),
}
"""Arguments of methods whose signature does not show, because another wrapper hides it."""


def argument_names(function: Callable[..., Any], method: str) -> tuple[str, ...]:
    """Return the names of the arguments that a method takes by position, without `self`."""
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a function of C
        return STANDARD.get(method, ("tag",))
    names = tuple(parameter.name for parameter in parameters if parameter.kind in plain)[1:]
    return names or STANDARD.get(method, ("tag",))


def step_of(given: Mapping[str, Any]) -> int | None:
    """Return the step of a call, or None if it has none. TensorBoard takes texts and any number."""
    step = given.get("global_step")
    return step if step is None or type(step) is int else int(step)


def plain_number(value: Any) -> Any:
    """Return a value as `telemetry.log` takes it. TensorBoard takes texts and lists of one number, too.

    A tensor is detached, as torch warns when one that has a gradient becomes a number.
    """
    if hasattr(value, "detach"):
        return value.detach()
    if isinstance(value, str | bytes):
        return float(value)
    if isinstance(value, list | tuple) and len(value) == 1:
        return plain_number(value[0])
    return value


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return hyperparameters with numbers in place of tensors and numpy numbers of one element."""
    return {
        str(key): value.item() if hasattr(value, "item") and getattr(value, "size", 1) in (1, ()) else value
        for key, value in settings.items()
    }


def raw_bins(low: float, limits: Sequence[Any], counts: Sequence[Any]) -> tuple[list[float], list[int]]:
    """Return edges and counts of bins that are given by their upper limits. Leave out empty bins at both ends.

    Raises ValueError if there is no value, or if a count is no whole number.
    """
    upper = [float(limit) for limit in limits]
    numbers = [float(count) for count in counts]
    filled = [index for index, number in enumerate(numbers) if number]
    if not filled or not all(number.is_integer() for number in numbers):
        raise ValueError("bins need whole counts, and at least one value")
    first, last = filled[0], filled[-1]
    lower = upper[first - 1] if first else float(low)
    if not lower < upper[first]:  # all values of the bin equal its limit
        lower = nextafter(upper[first], -inf)
    edges, kept = [lower], [0]
    for limit, number in zip(upper[first : last + 1], numbers[first : last + 1], strict=True):
        kept[-1] += int(number)
        if limit > edges[-1] and isfinite(limit):
            edges.append(limit)
            kept.append(0)
    return edges, kept[:-1]


class LogFolders:
    """Log folders of writers, as they were when each writer began. Thread-safe.

    A program may change its working directory while it writes to a relative folder.
    """

    def __init__(self) -> None:
        self._folders: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self.get: Final = self._folders.get
        """Function that returns the folder of a writer, or None if it is new."""

    def of(self, writer: Any) -> str:
        """Return the absolute path of the log folder of a writer."""
        path = self._folders.get(writer)
        if path is None:
            folder = getattr(writer, "log_dir", None)
            path = os.path.abspath(os.fspath(writer.logdir if folder is None else folder))
            self._folders[writer] = path
        return path


class WriterNames(Locked):
    """Names of the values of several writers. Thread-safe.

    The first log folder keeps its tags. Tags of another folder begin with the name of that folder, so that values
    of two writers don't mix.
    """

    def __init__(self) -> None:
        super().__init__()
        self._prefixes: dict[str, str] = {}
        """Prefix of the tags by absolute path of the folder."""
        self.known: dict[tuple[Any, Any], str] = {}
        """Name by log folder and tag, both as they were given."""
        self._owners: dict[str, str] = {}
        """Folder by name of a value."""

    def meet(self, folder: Any) -> str:
        """Return the prefix of a folder. The first folder has none."""
        path = os.path.abspath(os.fspath(folder))
        with self._lock:
            return self._prefix(path)

    def name(self, folder: Any, tag: Any) -> str:
        """Return the name for a tag of a folder."""
        existing = self.known.get((folder, tag))
        if existing is not None:
            return existing
        path = os.path.abspath(os.fspath(folder))
        with self._lock:
            prefix = self._prefix(path)
            plain = f"{prefix}/{tag}" if prefix else str(tag)
            if len(self.known) >= _NAMES:
                return plain
            name, number = plain, 1
            while self._owners.setdefault(name, path) != path:
                number += 1
                name = f"{plain} {number}"
            self.known[folder, tag] = name
            return name

    def _prefix(self, path: str) -> str:
        prefix = self._prefixes.get(path)
        if prefix is None:
            prefix = self._prefixes[path] = self._new_prefix(path) if self._prefixes else ""
        return prefix

    def _new_prefix(self, path: str) -> str:
        """Return as many of the last folders of a path as make it unique."""
        taken = set(self._prefixes.values())
        parts = [part for part in path.split(os.sep) if part] or ["log"]
        for count in range(1, len(parts) + 1):
            prefix = "/".join(parts[-count:])
            if prefix not in taken:
                return prefix
        return f"{prefix} {len(taken)}"
