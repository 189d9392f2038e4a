"""Work beside the run: texts go to those who count their tokens, what they come to goes to the logbook.

    uncounted records → aggregator.uncounted → daemon.tokens → one batch of a producer of our own → logbook

The batch says which texts are done, and has the values they came to. It is journaled and applied as any other, so
that a text is counted once: what an aggregator knew when it died, its follower knows, and it begins with the rest.
"""

from __future__ import annotations

import logging
import os
from typing import Final

from telemetry import limits
from telemetry.aggregator import Aggregator
from telemetry.daemon.components import Parts
from telemetry.daemon.ingest import Ingest
from telemetry.daemon.run_status import RunStatus
from telemetry.daemon.tokens.pool import Answer, TokenCounter
from telemetry.daemon.write_ahead import WriteAheadLog
from telemetry.wire.codec import encode_batch
from telemetry.wire.control import TOKEN_COUNTER, End, Hello
from telemetry.wire.events import Counted, EventRecord, OutgoingBatch, Sample, Uncounted
from telemetry.wire.version import PROTOCOL

_LOG = logging.getLogger("telemetry.daemon")

OWN_PRODUCER: Final = TOKEN_COUNTER
"""Its id. It is there once there is a text."""
_NAME: Final = "token counter"
_WALL_TIMES: Final = (0, 0)  # the anchor of times that are wall clock already, as those of pending texts are
_NO_TOKENIZER: Final = (
    "texts came whose tokens nobody counts: no tokenizer is set. `--tokenizer PATH`, or tokens.tokenizer in the "
    "configuration"
)


class TokenResults:
    """The service's thread only. Nothing here blocks but `close`, for a moment."""

    def __init__(self, parts: Parts, log: WriteAheadLog, ingest: Ingest, run_status: RunStatus) -> None:
        self._parts = parts
        self._log = log
        self._ingest = ingest
        self._run_status = run_status
        self._counter = parts.counter
        self._asked: dict[int, Uncounted] = {}
        """Texts that were taken, by number, until they are answered."""
        self._introduced = False
        self._refused = False
        """There is no room for one more producer."""
        if self._counter is not None:
            self._counter.begin(parts.worker.wake)

    @property
    def _aggregator(self) -> Aggregator:
        return self._parts.aggregator

    @property
    def waits(self) -> bool:
        """Whether texts are pending that will be counted sooner or later."""
        hopeless = self._refused or self._ended or (self._counter is not None and bool(self._counter.lost))
        return bool(self._aggregator.uncounted.pending) and not hopeless

    @property
    def busy(self) -> bool:
        """Whether the next turn has something to do that nobody will wake the loop for."""
        if self._counter is not None:
            return self._counter.answered
        return self.waits

    def turn(self) -> None:
        """Books a bounded number of answers and gives away as many texts as workers need."""
        if self._counter is None:
            self._refuse_all()
            return
        for _ in range(limits.TOKEN_ANSWERS_A_TURN):
            answer = self._counter.answer()
            if answer is None:
                break
            self._book(answer)
        while self._counter.hungry and self._aggregator.uncounted.fresh and self._introduce():
            self._give_away()
        self._say_if_lost(self._counter)

    def ping(self) -> None:
        """Our producer is as alive as we are, also one that an aggregator before this one introduced."""
        if self._is_there and not self._ended:
            self._log.ping(OWN_PRODUCER)

    def close(self) -> None:
        """The books are closed: nothing is counted any more."""
        if self._counter is not None:
            self._say_if_lost(self._counter)
            self._counter.close()
        if self._is_there and not self._ended:
            known = self._aggregator.producer(OWN_PRODUCER)
            batches, emitted = known.sequence.next_seq, known.account.emitted
            self._log.end(End(producer=OWN_PRODUCER, batches=batches, emitted=emitted))

    # --- texts -----------------------------------------------------------------------------------

    def _take(self) -> list[tuple[int, Uncounted]]:
        taken = self._aggregator.uncounted.take(limits.TOKEN_BATCH_BYTES)
        self._asked.update(taken)
        return taken

    def _give_away(self) -> None:
        assert self._counter is not None
        texts = [(number, text.text) for number, text in self._take()]
        for begin in range(0, len(texts), limits.TOKEN_BATCH_TEXTS):
            self._counter.submit(texts[begin : begin + limits.TOKEN_BATCH_TEXTS])

    def _say_if_lost(self, counter: TokenCounter) -> None:
        if counter.lost and self._aggregator.uncounted.pending:
            self._run_status.warn([f"tokens are not counted: {counter.lost}"])

    def _refuse_all(self) -> None:
        """What is not counted is said to be so, once: whoever hands in texts waits for nothing."""
        if not self._aggregator.uncounted.fresh or not self._introduce():
            return
        self._run_status.warn([_NO_TOKENIZER])
        numbers = [number for number, _ in self._take()]
        for begin in range(0, len(numbers), limits.TOKEN_BATCH_TEXTS):
            self._book([(number, None) for number in numbers[begin : begin + limits.TOKEN_BATCH_TEXTS]])

    # --- what they come to -----------------------------------------------------------------------

    @property
    def _is_there(self) -> bool:
        return OWN_PRODUCER in self._aggregator.producers()

    @property
    def _ended(self) -> bool:
        """Our producer, which an aggregator before this one may have ended: nothing of it would be taken."""
        return self._is_there and self._aggregator.producer(OWN_PRODUCER).reconciled

    def _introduce(self) -> bool:
        """Whether batches of our producer are taken."""
        if self._introduced or self._refused or self._ended:
            return self._introduced and not self._ended
        hello = Hello(producer=OWN_PRODUCER, name=_NAME, host=self._parts.host, pid=os.getpid())
        refusal = self._log.hello(hello)
        if refusal:
            self._refused = True
            self._run_status.warn([f"tokens are not counted: {refusal}"])
        self._introduced = not refusal
        return self._introduced

    def _book(self, answer: Answer) -> None:
        """One batch, which is one turn of the logbook."""
        texts = [(self._asked.pop(number), tokens) for number, tokens in answer]
        failed = sum(tokens is None for _, tokens in texts)
        records: list[EventRecord] = [Counted(texts=[number for number, _ in answer], failed=failed)]
        for text, tokens in texts:
            records += values_of(text, tokens)
        known = self._aggregator.producer(OWN_PRODUCER)
        batch = OutgoingBatch(
            version=PROTOCOL,
            producer=OWN_PRODUCER,
            seq=known.sequence.next_seq,
            first=known.account.emitted,
            anchor=_WALL_TIMES,
            dropped={},
            records=records,
            rows=[],
        )
        self._ingest.take([bytes(encode_batch(batch))])


def values_of(text: Uncounted, tokens: int | None) -> list[EventRecord]:
    """What a text with so many tokens is worth; None: nobody knows, so nothing is recorded."""
    if tokens is None:
        return []
    values: list[EventRecord] = [
        Sample(name=text.tokens, value=tokens, time_ns=text.time_ns, unit="tokens", labels=text.labels)
    ]
    if text.per_token and tokens > text.skipped:
        per_token_ns = text.span_ns / (tokens - text.skipped)
        values.append(
            Sample(name=text.per_token, value=per_token_ns, time_ns=text.time_ns, unit="ns", labels=text.labels)
        )
    return values
