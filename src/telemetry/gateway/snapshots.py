"""The newest snapshot of the run, for all requests of a gateway."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

import msgspec

from telemetry.transport.subscription import Subscription
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot

_LOOK_S: Final = 0.25


class Snapshots:
    """A thread that receives snapshots, and the newest one. Coroutines of one event loop read it."""

    def __init__(self, address: str) -> None:
        """Connect. Raises EndpointError."""
        self.newest: MetricsSnapshot | None = None
        self._loop = asyncio.get_running_loop()
        self._changed: asyncio.Event = asyncio.Event()
        self._encoded: tuple[int, bytes] = (-1, b"")
        self._number = 0
        self._closing = False
        self._subscription = Subscription(address)
        self._thread = threading.Thread(target=self._run, name="telemetry-snapshots", daemon=True)
        self._thread.start()

    @property
    def number(self) -> int:
        """Number of snapshots received."""
        return self._number

    @property
    def over(self) -> bool:
        """True once a terminal snapshot has arrived."""
        return self.newest is not None and self.newest.state in TERMINAL

    def as_json(self) -> bytes:
        """Return the newest snapshot as JSON. It is encoded once for all clients."""
        if self._encoded[0] != self._number:
            self._encoded = (self._number, msgspec.json.encode(self.newest))
        return self._encoded[1]

    async def wait(self, timeout_s: float) -> bool:
        """Wait for the next snapshot. Return False after the timeout."""
        event = self._changed
        try:
            await asyncio.wait_for(event.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    async def each(self, idle_s: float) -> AsyncIterator[MetricsSnapshot | None]:
        """Yield the newest snapshot whenever there is a new one, and None after each `idle_s` without one.

        Ends after a terminal snapshot.
        """
        seen = -1
        while True:
            if self._number != seen and self.newest is not None:
                seen = self._number
                yield self.newest
                if self.over:
                    return
            elif not await self.wait(idle_s):
                yield None

    def close(self) -> None:
        """End the thread. Blocks briefly."""
        self._closing = True
        self._thread.join(4 * _LOOK_S)

    def _run(self) -> None:
        with self._subscription as subscription:
            while not self._closing:
                snapshot = subscription.recv(_LOOK_S)
                if snapshot is not None:
                    with suppress(RuntimeError):  # the loop is closed
                        self._loop.call_soon_threadsafe(self._take, snapshot)

    def _take(self, snapshot: MetricsSnapshot) -> None:
        self.newest = snapshot
        self._number += 1
        self._changed.set()
        self._changed = asyncio.Event()
