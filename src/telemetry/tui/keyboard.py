"""One key after the other, however fast they come."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from textual.app import App
from textual.events import Event, Key, Paste
from textual.message import Message

WAITING: Final = 1_000
"""Keys that are kept; nobody types more ahead."""
LOST_S: Final = 1.0
"""Whoever has had a key for so long may be gone with it."""
_TURNS: Final = 2
"""A key is heeded once it has come up to the app; messages that somebody sends because of it come after that."""


class OrderedKeys(App[None]):
    """Each key goes to whoever has the keyboard after the one before it: the letters behind the key of a filter are
    its words, a second `enter` opens what the first has left.

    Textual alone sends keys off as they come, to whoever has the keyboard while others are still on their way. Here
    a message follows each of them, through the same queues, and the next key waits until it has come back.
    """

    class Heeded(Message):
        """A key has come as far as this."""

        def __init__(self, turns: int) -> None:
            super().__init__()
            self.turns = turns
            """This one included, until all that the key does has been done."""

    def __init__(self, *, ansi_color: bool | None = None) -> None:
        super().__init__(ansi_color=ansi_color)
        self._typed: deque[Key | Paste] = deque()
        self._patience: asyncio.TimerHandle | None = None
        """Runs out while a key is under way."""

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
