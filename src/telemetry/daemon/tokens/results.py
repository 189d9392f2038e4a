"""Token counting beside the run: texts go to the workers, and their counts go to the journal.

    uncounted records → aggregator.uncounted → daemon.tokens → one batch of an internal producer → journal

The batch lists the counted texts and holds their values. It is journaled and applied like any other, so each text
is counted once: after a restart, the next aggregator knows which texts are done and starts with the rest.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Final, Literal

from telemetry import limits
from telemetry.aggregator import Aggregator
from telemetry.common import slo
from telemetry.daemon.components import DaemonParts
from telemetry.daemon.ingest import Ingest
from telemetry.daemon.run_status import RunStatus
from telemetry.daemon.tokens.pool import Answer, TokenCounter
from telemetry.daemon.write_ahead import WriteAheadLog
from telemetry.wire import requests as words
from telemetry.wire.codec import encode_batch
from telemetry.wire.control import TOKEN_COUNTER, End, Hello
from telemetry.wire.events import Count, Counted, EventRecord, OutgoingBatch, Sample, Uncounted
from telemetry.wire.request_log import RequestTokens
from telemetry.wire.version import PROTOCOL

_LOG = logging.getLogger("telemetry.daemon")

OWN_PRODUCER: Final = TOKEN_COUNTER
"""Id of the internal producer, which exists once there is a text."""
_NAME: Final = "token counter"
_WALL_TIMES: Final = (0, 0)  # the anchor for times that are already wall clock times, as those of pending texts
_LOGGED: Final[dict[str, Literal["input_tokens", "output_tokens"]]] = {
    words.INPUT_TOKENS: "input_tokens",
    words.OUTPUT_TOKENS: "output_tokens",
}
"""Words of the request log by those of instruments."""
_NO_TOKENIZER: Final = (
    "tokens are not counted: a producer sent texts, but no tokenizer is set. Use `--tokenizer "
    "PATH`, or tokens.tokenizer in the configuration"
)


class TokenResults:
    """Exchange between the run and the token workers.

    For the service's thread only. Only `close` blocks, briefly.
    """

    def __init__(self, parts: DaemonParts, log: WriteAheadLog, ingest: Ingest, run_status: RunStatus) -> None:
        self._parts = parts
        self._log = log
        self._ingest = ingest
        self._run_status = run_status
        self._counter = parts.counter
        self._asked: dict[int, Uncounted] = {}
        """Number → text that was sent to a worker and has no answer yet."""
        self._introduced = False
        self._refused = False
        """True if there is no room for one more producer."""
        if self._counter is not None:
            self._counter.begin(parts.worker.wake)

    @property
    def _aggregator(self) -> Aggregator:
        return self._parts.aggregator

    @property
    def waits(self) -> bool:
        """True if texts are pending that will be counted."""
        hopeless = self._refused or self._ended or (self._counter is not None and bool(self._counter.lost))
        return bool(self._aggregator.uncounted.pending) and not hopeless

    @property
    def busy(self) -> bool:
        """True if the next turn has work for which the loop is not woken."""
        if self._counter is not None:
            return self._counter.answered
        return self.waits

    def turn(self) -> None:
        """Record a bounded number of answers, and submit as many texts as the workers need."""
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
        """Keep the internal producer alive, including one that an earlier aggregator introduced."""
        if self._is_there and not self._ended:
            self._log.ping(OWN_PRODUCER)

    def close(self) -> None:
        """Stop counting, because the books are closed."""
        if self._counter is not None:
            self._say_if_lost(self._counter)
            self._counter.close()
        if self._is_there and not self._ended:
            producer = self._aggregator.book[OWN_PRODUCER]
            batches, emitted = producer.sequence.next_seq, producer.account.emitted
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
        """Record all texts as uncounted and warn once, so that no component waits for them."""
        if not self._aggregator.uncounted.fresh or not self._introduce():
            return
        self._run_status.warn([_NO_TOKENIZER])
        numbers = [number for number, _ in self._take()]
        for begin in range(0, len(numbers), limits.TOKEN_BATCH_TEXTS):
            self._book([(number, None) for number in numbers[begin : begin + limits.TOKEN_BATCH_TEXTS]])

    # --- results ---------------------------------------------------------------------------------

    @property
    def _is_there(self) -> bool:
        return self._aggregator.book.get(OWN_PRODUCER) is not None

    @property
    def _ended(self) -> bool:
        """True if the internal producer has ended, perhaps in an earlier aggregator.

        Its batches are refused then.
        """
        return self._is_there and self._aggregator.book[OWN_PRODUCER].reconciled

    def _introduce(self) -> bool:
        """Return True if batches of the internal producer are accepted."""
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
        """Record an answer as one batch, which is one turn of the journal."""
        texts = [(self._asked.pop(number), tokens) for number, tokens in answer]
        failed = sum(tokens is None for _, tokens in texts)
        records: list[EventRecord | RequestTokens] = [
            Counted(texts=[number for number, _ in answer], failed=failed)
        ]
        for text, tokens in texts:
            records += [*values_of(text, tokens), *tokens_of(text, tokens)]
        producer = self._aggregator.book[OWN_PRODUCER]
        batch = OutgoingBatch(
            version=PROTOCOL,
            producer=OWN_PRODUCER,
            seq=producer.sequence.next_seq,
            first=producer.account.emitted,
            anchor=_WALL_TIMES,
            dropped={},
            records=records,
            rows=[],
        )
        self._ingest.take([bytes(encode_batch(batch))])


def tokens_of(text: Uncounted, tokens: int | None) -> list[RequestTokens]:
    """Return the records of a text for the request log. An unknown count, or a request not logged, gives none."""
    word = _LOGGED.get(text.tokens.rpartition(".")[2])
    if tokens is None or text.number is None or word is None:
        return []
    return [
        RequestTokens(producer=text.producer, number=text.number, word=word, tokens=tokens, time_ns=text.time_ns)
    ]


def values_of(text: Uncounted, tokens: int | None) -> list[EventRecord]:
    """Return the records of a text with that many tokens. None: the count is unknown, so the result is empty."""
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
    if text.tpot_limit_ns is not None and slo.is_tpot_met(text.tpot_limit_ns, text.span_ns, text.skipped, tokens):
        values += _good(text)
    return values


def _good(text: Uncounted) -> Iterator[Count]:
    """Yield increments for a request that meets its limit for the time per token."""
    kind = text.tokens.rpartition(".")[0]
    counts = [(words.MET, {**text.labels, words.SLO: slo.TPOT})]
    if text.otherwise_good:
        counts.append((words.GOOD, text.labels))
    for word, labels in counts:
        unit = words.INSTRUMENTS[word][1]
        yield Count(name=words.name_of(kind, word), time_ns=text.time_ns, unit=unit, labels=labels)
