"""Requests for the producers of nodes, which may block, on a thread of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock, Thread

from telemetry.errors import TelemetryError
from telemetry.tui.feed.news import MembersOf, Tell, ViewerNote
from telemetry.wire.control import MemberFacts


class MemberRequests:
    """A queue of nodes whose producers are wanted. The thread lives only while there are any."""

    def __init__(self, tell: Tell, read: Callable[[str], Sequence[MemberFacts]]) -> None:
        """Prepare the queue. `read` blocks, and raises TelemetryError if the producers are not known."""
        self._tell = tell
        self._read = read
        self._lock = Lock()
        self._wanted: dict[str, None] = {}
        """Nodes in the order of their requests."""
        self._is_running = False

    def ask(self, node: str) -> None:
        """Request the producers of a node. Returns at once; the answer arrives as news."""
        with self._lock:
            self._wanted[node] = None
            if self._is_running:
                return
            self._is_running = True
        Thread(target=self._run, name="telemetry-members", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._lock:
                node = next(iter(self._wanted), None)
                if node is None:
                    self._is_running = False
                    return
                del self._wanted[node]
            try:
                self._tell(MembersOf(node, tuple(self._read(node))))
            except TelemetryError as error:
                self._tell(ViewerNote(f"the producers of this node are not known: {error.message}", bad=True))
                self._tell(MembersOf(node, ()))
