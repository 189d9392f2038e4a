"""The exit hooks of a process: they call functions at its end, in programs and in multiprocessing's children."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable
from types import TracebackType


class ExitHooks:
    """The hooks that call `end` at the exit of this process, and of children that multiprocessing forks.

    multiprocessing's children skip `atexit` but run their finalizers. A process with both calls `end` twice.

    An exception that ends the program is given to `fail` first, which never raises.
    """

    def __init__(self, end: Callable[[], object], fail: Callable[[BaseException], object]) -> None:
        self._end, self._fail = end, fail
        self._next_excepthook = sys.excepthook
        self._hooked = self._hooked_multiprocessing = False

    def register(self) -> None:
        """Register each hook once. A later call adds that of multiprocessing, if it is imported by then."""
        if not self._hooked:
            self._hooked = True
            atexit.register(self._at_exit)
            self._next_excepthook, sys.excepthook = sys.excepthook, self._at_exception
        util = sys.modules.get("multiprocessing.util")
        if util is not None and not self._hooked_multiprocessing:
            self._hooked_multiprocessing = True
            util.register_after_fork(self, ExitHooks._finalize_with_multiprocessing)
            self._finalize_with_multiprocessing()

    def _at_exception(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """Call `fail`, then the hook that was there before. At a prompt, the program goes on."""
        if not (sys.flags.interactive or hasattr(sys, "ps1")):
            self._fail(error)
        self._next_excepthook(kind, error, trace)

    def _finalize_with_multiprocessing(self) -> None:
        """Register the finalizer.

        Called again in each child, because a child clears its finalizers before it runs.
        """
        util = sys.modules["multiprocessing.util"]
        util.Finalize(None, self._end, exitpriority=-100)

    def _at_exit(self) -> None:
        """Call `end` at exit.

        If multiprocessing's own exit function is still due, run after it: it joins children.
        """
        util = sys.modules.get("multiprocessing.util")
        if util is not None and not util.is_exiting():
            self._finalize_with_multiprocessing()
        else:
            self._end()
