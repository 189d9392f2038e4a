"""Keys in order, however fast they are typed."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from textual.app import App
from textual.events import Event, Key, Paste
from textual.message import Message

WAITING: Final = 1_000
"""Largest number of waiting keys. Users do not type further ahead."""
LOST_S: Final = 1.0
"""Seconds after which a key counts as lost, together with the widget that handled it."""
_TURNS: Final = 2
"""Number of times a marker is sent behind a key.

The first arrives once the key has been handled; the second arrives after the messages that the handler sent.
"""


class OrderedKeys(App[None]):
    """An app in which each key goes to the widget that has focus after the previous key was handled.

    So letters typed after the filter key become words of the filter, and a second `enter` opens what the first one
    selected. Plain Textual dispatches keys on arrival, to the widget that has focus while earlier keys are still
    being handled. Here a marker message follows each key through the same queues, and the next key waits for its
    return.
    """

    class Heeded(Message):
        """A marker behind a key."""

        def __init__(self, turns: int) -> None:
            super().__init__()
            self.turns = turns
            """Passes left, including this one, until the effects of the key are complete."""

    def __init__(self, *, ansi_color: bool | None = None) -> None:
        super().__init__(ansi_color=ansi_color)
        self._typed: deque[Key | Paste] = deque()
        self._patience: asyncio.TimerHandle | None = None
        """Timer of the key that is being handled."""

    async def on_event(self, event: Event) -> None:
        if not isinstance(event, Key | Paste) or event.is_forwarded:
            await super().on_event(event)
        elif len(self._typed) < WAITING:
            self._typed.append(event)
            if self._patience is None:
                await self._send_next()

    async def on_ordered_keys_heeded(self, message: Heeded) -> None:
        if message.turns > 1:
            self._trail(message.turns - 1)
        else:
            await self._send_next()

    async def _send_next(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        if self._typed and self.screen_stack:
            lost = asyncio.get_running_loop().call_later(LOST_S, self.call_later, self._send_next)
            self._patience = lost
            await super().on_event(self._typed.popleft())
            if self._patience is lost:
                self._trail(_TURNS)

    def _trail(self, turns: int) -> None:
        if self.screen_stack:
            (self.focused or self.screen).post_message(self.Heeded(turns))
