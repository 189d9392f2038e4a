"""All calls of the interface: groups and their handlers, values, and `prof`.

A value goes to its series, then to the handler of its group. Programs that replace `getStream` of this module, as
torch's own tests do, get all values of `put_metric` and `prof` on their stream.
"""

from __future__ import annotations

import abc
import functools
import inspect
import time
import warnings
from collections.abc import AsyncGenerator, Callable, Generator
from fnmatch import fnmatchcase
from importlib import import_module
from types import TracebackType
from typing import Any, Final, NamedTuple, TypeVar, cast, overload

from telemetry.client import user_warnings
from telemetry.errors import UsageError, error_text
from telemetry.integrations.metric_points import PutPoint, point_recorder

__all__ = [
    "ConsoleMetricHandler",
    "ConsoleMetricsHandler",
    "MetricData",
    "MetricHandler",
    "MetricStream",
    "MetricsConfig",
    "NullMetricHandler",
    "NullMetricsHandler",
    "configure",
    "getStream",
    "get_elapsed_time_ms",
    "initialize_metrics",
    "prof",
    "profile",
    "publish_metric",
    "put_metric",
    "unconfigure",
]

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_GROUP: Final = "torchelastic"
_NS_PER_MS: Final = 1_000_000
_ROUTES_KEPT: Final = 20_000  # routes of further metrics are made at each call


class MetricData(NamedTuple):
    """One value of a metric, as handlers get it."""

    timestamp: float
    """Unix time in seconds."""
    group_name: str
    name: str
    value: Any


class MetricHandler(abc.ABC):
    """The base of handlers. Override `emit`."""

    @abc.abstractmethod
    def emit(self, metric_data: MetricData) -> None:
        """Take one value of a metric."""


class ConsoleMetricHandler(MetricHandler):
    """A handler that prints each value to stdout."""

    def emit(self, metric_data: MetricData) -> None:
        timestamp, group, name, value = metric_data
        print(f"[{timestamp}][{group}]: {name}={value}")  # noqa: T201 – printing is what it is for


class NullMetricHandler(MetricHandler):
    """A handler that ignores all values. The default."""

    def emit(self, metric_data: MetricData) -> None:
        pass


ConsoleMetricsHandler = ConsoleMetricHandler
NullMetricsHandler = NullMetricHandler

_NAMED_HANDLERS: Final = {"console": ConsoleMetricHandler, "null": NullMetricHandler}

Route = tuple[PutPoint, PutPoint | None]
"""Recorder of a metric, and its sender to the handler, which the null handler does not need."""


class _State:
    """Handlers, and the routes made of them."""

    __slots__ = ("handlers", "routes")

    def __init__(self) -> None:
        self.handlers: dict[str | None, MetricHandler] = {None: NullMetricHandler()}
        """Handlers by group, or by pattern of groups, in the order of configuration. None is the default."""
        self.routes: dict[tuple[str, str], Route] = {}
        """Routes by group and name. Replaced after each change of handlers, so that no old route is found again."""


_state: Final = _State()


class MetricsConfig:
    """Settings for `initialize_metrics`: a handler for each group."""

    __slots__ = ("params",)

    def __init__(self, params: dict[str, str] | None = None) -> None:
        self.params: dict[str, str] = {} if params is None else params


class MetricStream:
    """A group of metrics with a handler of its own."""

    def __init__(self, group_name: str, handler: MetricHandler) -> None:
        self.group_name = group_name
        self.handler = handler

    def add_value(self, metric_name: str, metric_value: Any) -> None:
        """Record a value of a metric, and give it to the handler."""
        _route(self.group_name, metric_name)[0](metric_value)
        _sender(self.handler, self.group_name, metric_name)(metric_value)


class _ConfiguredStream(MetricStream):
    """A group of metrics with the handler that is configured at the time of each value."""

    def __init__(self, group_name: str) -> None:
        self.group_name = group_name

    @property
    def handler(self) -> MetricHandler:  # type: ignore[override]  # the base class has a plain attribute
        return _handler_of(self.group_name)

    def add_value(self, metric_name: str, metric_value: Any) -> None:
        try:
            record, send = _state.routes[self.group_name, metric_name]
        except (KeyError, TypeError):
            record, send = _new_route(self.group_name, metric_name)
        record(metric_value)
        if send is not None:
            send(metric_value)


def configure(handler: MetricHandler, group: str | None = None) -> None:
    """Set the handler of a group, or of all groups without one.

    `group` may be a pattern such as `train.*`. The handler of the exact name wins over patterns, and an earlier
    pattern over a later one.
    """
    _state.handlers[group] = handler
    _state.routes = {}


def unconfigure(group: str | None = None) -> None:
    """Remove the handler of a group or pattern, or of all groups without one."""
    if group is None:
        _state.handlers[None] = NullMetricHandler()
    else:
        _state.handlers.pop(group, None)
    _state.routes = {}


def initialize_metrics(cfg: MetricsConfig | None = None) -> None:
    """Configure a handler for each group that `cfg.params` names. Raise UsageError for an unknown handler.

    Example:
        initialize_metrics(MetricsConfig({"my_app": "console", "*": "my_package.sinks:FileHandler"}))

    A handler is `console`, `null`, or `MODULE:CLASS` for a class of yours that takes no arguments.
    """
    params = {} if cfg is None else cfg.params
    chosen = {group: _handler_named(group, name) for group, name in params.items()}
    for group, handler in chosen.items():
        configure(handler, group)


def getStream(group: str) -> MetricStream:
    """Return the stream of a group. It follows later calls of `configure`."""
    return _ConfiguredStream(group)


_own_streams: Final = getStream


def put_metric(metric_name: str, metric_value: Any, metric_group: str = DEFAULT_GROUP) -> None:
    """Record a value of a metric, and give it to the handler of the group.

    Example:
        put_metric("examples", 512, "train")
    """
    if getStream is not _own_streams:
        getStream(metric_group).add_value(metric_name, metric_value)
        return
    try:
        record, send = _state.routes[metric_group, metric_name]
    except (KeyError, TypeError):
        record, send = _new_route(metric_group, metric_name)
    record(metric_value)
    if send is not None:
        send(metric_value)


def publish_metric(metric_group: str, metric_name: str, metric_value: Any) -> None:
    """Do the same as `put_metric`. Deprecated."""
    warnings.warn("publish_metric is deprecated: use put_metric(name, value, group)", FutureWarning, stacklevel=2)
    put_metric(metric_name, metric_value, metric_group)


@overload
def prof(fn: F, group: str = DEFAULT_GROUP) -> F: ...


@overload
def prof(fn: None = None, group: str = DEFAULT_GROUP) -> Callable[[F], F]: ...


def prof(fn: Callable[..., Any] | None = None, group: str = DEFAULT_GROUP) -> Callable[..., Any]:
    """Decorate a function so that each call puts metrics: NAME.success or NAME.failure, and NAME.duration.ms.

    Example:
        @prof(group="data")
        def load(): ...

    NAME is `Class.method` for a method and `module.function` for a function. A coroutine is measured until it
    returns, a generator until it is exhausted or closed. Any exception is a failure, KeyboardInterrupt included.
    """

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        return _profiled(function, _get_metric_name(function), group)

    return wrap(fn) if fn else wrap


def profile(group: Any = None) -> Callable[[F], F]:
    """Do the same as `prof`, with the bare name of the function. Deprecated."""
    warnings.warn("profile is deprecated: use prof(group=…)", FutureWarning, stacklevel=2)

    def wrap(function: F) -> F:
        return cast(F, _profiled(function, function.__name__, group))

    return wrap


def get_elapsed_time_ms(start_time_in_seconds: float) -> int:
    """Return the whole milliseconds since a time of `time.time()`."""
    return int((time.time() - start_time_in_seconds) * 1000)


def _put_measured(group: str, name: str, measured: float, emitted: int) -> None:
    """Record a measured value, and give the handler the value that torchelastic would have given."""
    if getStream is not _own_streams:
        getStream(group).add_value(name, emitted)
        return
    record, send = _route(group, name)
    record(measured)
    if send is not None:
        send(emitted)


def _route(group: str, name: str) -> Route:
    try:
        return _state.routes[group, name]
    except (KeyError, TypeError):
        return _new_route(group, name)


def _new_route(group: str, name: str) -> Route:
    record = point_recorder(group, name)
    routes = _state.routes
    handler = _handler_of(group)
    route = record, None if type(handler) is NullMetricHandler else _sender(handler, group, name)
    try:
        if len(routes) < _ROUTES_KEPT:
            routes[group, name] = route
    except TypeError:
        pass  # a group or a name that is no text may not be hashable; its handler gets it all the same
    return route


def _handler_of(group: str) -> MetricHandler:
    handlers = _state.handlers
    default = handlers[None]
    if not isinstance(group, str):
        return default
    exact = handlers.get(group)
    if exact is not None:
        return exact
    patterns = list(handlers.items())  # another thread may configure
    return next((handler for pattern, handler in patterns if pattern and fnmatchcase(group, pattern)), default)


def _handler_named(group: str, name: str) -> MetricHandler:
    factory = _NAMED_HANDLERS.get(name)
    if factory is not None:
        return factory()
    module, _, class_name = name.partition(":")
    try:
        if not module or not class_name:
            raise ImportError("it is not a name of that form")
        return getattr(import_module(module), class_name)()  # type: ignore[no-any-return]
    except (ImportError, AttributeError, TypeError) as error:
        raise UsageError(
            f"group {group!r} can't have the handler {name!r}: {error}",
            hint=f"use {', '.join(_NAMED_HANDLERS)}, or MODULE:CLASS for a class that takes no arguments",
        ) from error


def _get_metric_name(fn: Callable[..., Any]) -> str:
    """Return `Class.method` for a method, else `module.function`, or `module.Class` for a callable object."""
    qualified: str = getattr(fn, "__qualname__", type(fn).__qualname__)
    module: str | None = getattr(fn, "__module__", None)
    if "." in qualified or not module:
        return qualified
    return f"{module.rpartition('.')[2]}.{qualified}"


class _Call:
    """A `with` block around one call."""

    __slots__ = ("_group", "_names", "_started_ns")

    def __init__(self, names: tuple[str, str, str], group: str) -> None:
        self._names = names
        self._group = group
        self._started_ns = 0

    def __enter__(self) -> None:
        self._started_ns = time.monotonic_ns()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        elapsed_ns = time.monotonic_ns() - self._started_ns
        success, failure, duration = self._names
        succeeded = kind is None or kind is GeneratorExit  # a consumer may close a generator early
        _put_measured(self._group, success if succeeded else failure, 1, 1)
        _put_measured(self._group, duration, elapsed_ns / _NS_PER_MS, elapsed_ns // _NS_PER_MS)


def _profiled(function: Callable[..., Any], key: str, group: str) -> Callable[..., Any]:
    names = (f"{key}.success", f"{key}.failure", f"{key}.duration.ms")

    def call(*args: Any, **kwargs: Any) -> Any:
        with _Call(names, group):
            return function(*args, **kwargs)

    async def await_call(*args: Any, **kwargs: Any) -> Any:
        with _Call(names, group):
            return await function(*args, **kwargs)

    def generate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with _Call(names, group):
            return (yield from function(*args, **kwargs))

    async def generate_async(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        with _Call(names, group):
            inner = function(*args, **kwargs)
            try:
                value = await inner.asend(None)
                while True:
                    try:
                        sent = yield value
                    except GeneratorExit:
                        await inner.aclose()
                        raise
                    except BaseException as error:  # noqa: BLE001 – the generator gets what its consumer throws
                        value = await inner.athrow(error)
                    else:
                        value = await inner.asend(sent)
            except StopAsyncIteration:
                return

    if inspect.isasyncgenfunction(function):
        wrapper: Callable[..., Any] = generate_async
    elif inspect.iscoroutinefunction(function):
        wrapper = await_call
    elif inspect.isgeneratorfunction(function):
        wrapper = generate
    else:
        wrapper = call
    return functools.wraps(function)(wrapper)


def _sender(handler: Any, group: str, name: str) -> Callable[[Any], None]:
    """Return the function that gives values of a metric to a handler. It never raises."""
    now = time.time

    def send(value: Any) -> None:
        try:
            handler.emit(MetricData(now(), group, name, value))
        except Exception as error:  # noqa: BLE001 – a user's handler may raise anything, and must not break the program
            kind = type(handler).__qualname__
            user_warnings.warn_once(
                f"handler {kind}",
                f"{kind}.emit() failed for metric {name!r}: {error_text(error)}. The program goes on, "
                "and the metric is recorded; this warning appears once",
            )

    return send
