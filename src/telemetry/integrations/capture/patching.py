"""Patches of functions of other libraries that can be removed in any order and never raise into user code."""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections.abc import Callable, Generator
from typing import Any, Final
from weakref import WeakKeyDictionary

_MISSING: Final = object()
_DEPTH: Final = 100  # wrappers on top of each other that are looked through

Function = Callable[..., Any]


class Layer:
    """One wrapper that a patch has put in place."""

    __slots__ = ("active", "own")

    def __init__(self, own: Any) -> None:
        self.own = own
        """Attribute of the owner before the patch; `_MISSING` if the owner only inherited it."""
        self.active = True


_lock = threading.Lock()
_all_layers: Final[WeakKeyDictionary[Function, Layer]] = WeakKeyDictionary()
"""Wrappers of all patches."""


class Patch:
    """A wrapper in place of `owner.name`, a function of a module or a method of a class. Thread-safe.

    `install` and `remove` may be called any number of times and in any order, even if other libraries have put
    wrappers on top. A removed patch that another wrapper covers stays in place: it only passes calls on.
    """

    def __init__(self, owner: Any, name: str, wrap: Callable[..., Function], *, has_switch: bool = False) -> None:
        """Describe the patch. `wrap` makes the new function from the original one.

        With `has_switch`, `wrap` also gets the layer, and its function only passes calls on while `layer.active` is
        false. This saves one call of Python for each call of the function.

        Raises AttributeError if `owner` has no such function.
        """
        self._owner = owner
        self._name = name
        self._wrap = wrap
        self._has_switch = has_switch
        self._layers: WeakKeyDictionary[Function, Layer] = WeakKeyDictionary()
        """Wrappers that this patch has made, as long as somebody holds them."""
        if not callable(_function(self._stored())):
            raise AttributeError(f"{name!r} of {owner!r} is not a function")

    def replaces_same(self, other: Patch) -> bool:
        """Return whether both patches replace the same attribute of the same object."""
        return self._owner is other._owner and self._name == other._name

    def install(self) -> None:
        """Put the wrapper in place, or switch it on again."""
        with _lock:
            stored = self._stored()
            reached = self._reached(_function(stored))
            for layer in self._layers.values():
                layer.active = layer is reached
            if reached is None:
                self._put_on(stored)

    def remove(self) -> None:
        """Restore the original function, unless another wrapper covers this one. Then only switch this wrapper off.

        Switched-off wrappers of other patches directly below this one are taken off, too. Example: patch A is
        installed, then patch B. Removing A only switches A off. Removing B then takes off both, and the original
        is back.
        """
        with _lock:
            for layer in self._layers.values():
                layer.active = False
            while (top := self._layer_on_top()) is not None and not top.active:
                if top.own is _MISSING:
                    delattr(self._owner, self._name)
                else:
                    setattr(self._owner, self._name, top.own)

    def _stored(self) -> Any:
        """Return the attribute as it is stored: for a method of a class not bound to anything."""
        if isinstance(self._owner, type):
            for each in self._owner.__mro__:
                if self._name in vars(each):
                    return vars(each)[self._name]
        return getattr(self._owner, self._name)

    def _layer_on_top(self) -> Layer | None:
        return _layer_of(_function(vars(self._owner).get(self._name)), _all_layers)

    def _reached(self, function: Any) -> Layer | None:
        """Return this patch's wrapper if calls of a function reach it, or None.

        Wrappers of other libraries are looked through by their `__wrapped__`, which `functools.wraps` sets.
        """
        for _ in range(_DEPTH):
            layer = _layer_of(function, self._layers)
            if layer is not None or function is None:
                return layer
            function = getattr(function, "__wrapped__", None)
        return None

    def _put_on(self, stored: Any) -> None:
        original = _function(stored)
        layer = Layer(vars(self._owner).get(self._name, _MISSING))
        if self._has_switch:
            call: Function = functools.wraps(original)(self._wrap(original, layer))
        else:
            call = _switched(layer, original, self._wrap(original))
        self._layers[call] = _all_layers[call] = layer
        kept: Any = call
        if isinstance(stored, classmethod):
            kept = classmethod(call)
        elif isinstance(self._owner, type) and not _binds(stored):
            kept = staticmethod(call)
        setattr(self._owner, self._name, kept)


def _layer_of(function: Any, layers: WeakKeyDictionary[Function, Layer]) -> Layer | None:
    try:
        return layers.get(function)
    except TypeError:  # an object without weak references or a hash is not ours
        return None


def _function(stored: Any) -> Any:
    return stored.__func__ if isinstance(stored, staticmethod | classmethod) else stored


def _binds(stored: Any) -> bool:
    """Return whether a stored attribute becomes a bound method when it is read from an object."""
    return hasattr(stored, "__get__") and not isinstance(stored, staticmethod)


def _switched(layer: Layer, original: Function, wrapper: Function) -> Function:
    """Return a function of the original's kind that calls the wrapper while the layer is active."""
    if inspect.iscoroutinefunction(original):

        @functools.wraps(original)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            return await (wrapper if layer.active else original)(*args, **kwargs)

        return call_async
    if inspect.isgeneratorfunction(original):

        @functools.wraps(original)
        def generate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            return (yield from (wrapper if layer.active else original)(*args, **kwargs))

        return generate

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return (wrapper if layer.active else original)(*args, **kwargs)

    return call


def _renew_lock() -> None:
    """Replace the lock in a forked child. A thread of the parent may have held it."""
    global _lock  # noqa: PLW0603 – the only way
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


class _Local(threading.local):
    """A flag of the thread: it is within an observed call. The class attribute is faster than a failed lookup."""

    busy = False


class Observers:
    """Factory of wrappers that call an observer after the original returned. One object per library.

    A call that a library makes from within an observed call is not observed: `add_hparams` calls `add_scalar` on a
    writer of its own. An observer that raises is reported once, and the program goes on. Each such call is counted.

    A coroutine is observed after it was awaited, and a generator after it ended. Other code runs in between, so
    calls from within these two are observed as well.
    """

    def __init__(self, library: str) -> None:
        """`library` begins the warnings."""
        self._library = library
        self._local = _Local()
        self._failed: set[str] = set()

    def after(
        self, observe: Callable[..., object], what: str, *, nests: bool = True
    ) -> Callable[[Function], Function]:
        """Return a `wrap` for a Patch. `observe` gets the result, then the arguments of the call.

        `what` names the function in messages. Without `nests`, the function and the observer must not call observed
        functions; this saves a tenth of the cost.
        """

        def wrap(original: Function) -> Function:
            if inspect.iscoroutinefunction(original):
                return self._after_coroutine(original, observe, what)
            if inspect.isgeneratorfunction(original):
                return self._after_generator(original, observe, what)
            local = self._local

            def call_flat(*args: Any, **kwargs: Any) -> Any:
                result = original(*args, **kwargs)
                if not local.busy:
                    try:
                        observe(result, *args, **kwargs)
                    except Exception as error:  # noqa: BLE001 – a fault of an observer must not reach the program
                        self.report(what, error)
                return result

            def call(*args: Any, **kwargs: Any) -> Any:
                if local.busy:
                    return original(*args, **kwargs)
                local.busy = True
                try:
                    result = original(*args, **kwargs)
                    try:
                        observe(result, *args, **kwargs)
                    except Exception as error:  # noqa: BLE001 – a fault of an observer must not reach the program
                        self.report(what, error)
                finally:
                    local.busy = False
                return result

            return call if nests else call_flat

        return wrap

    def run(self, what: str, observe: Callable[..., object], *args: Any, **kwargs: Any) -> None:
        """Call an observer. Report its first error and never raise it."""
        try:
            observe(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 – a fault of an observer must not reach the program
            self.report(what, error)

    def _after_coroutine(self, original: Function, observe: Callable[..., object], what: str) -> Function:
        async def call(*args: Any, **kwargs: Any) -> Any:
            result = await original(*args, **kwargs)
            if not self._local.busy:
                self.run(what, observe, result, *args, **kwargs)
            return result

        return call

    def _after_generator(self, original: Function, observe: Callable[..., object], what: str) -> Function:
        def call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            result = yield from original(*args, **kwargs)
            if not self._local.busy:
                self.run(what, observe, result, *args, **kwargs)
            return result

        return call

    def report(self, what: str, error: Exception) -> None:
        """Count a call that was not recorded as `unencodable`. Print a warning for the first one of a function."""
        try:
            from telemetry.client import user_warnings  # only now: the client takes a tenth of a second to import
            from telemetry.client.process import PROCESS

            def fail() -> list[bytes]:
                raise error

            PROCESS.put_records(fail)
            if what in self._failed:
                return
            self._failed.add(what)
            user_warnings.warn(
                f"{self._library}: a call of {what} was not recorded: {type(error).__name__}: {error}. The program "
                "goes on; this warning appears once"
            )
        except Exception:  # noqa: BLE001 – a filter of the program's logging, or `str(error)`, may raise anything
            return
