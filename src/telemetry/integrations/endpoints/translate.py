"""The translation of a benchmark's events to requests of a run, with the benchmark's own timestamps."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from telemetry import limits
from telemetry.common.formatting import duration_ns, printable
from telemetry.integrations.endpoints import decode
from telemetry.integrations.endpoints.decode import (
    EndpointFailure,
    Event,
    EventRejection,
    ModelOutput,
    Prompt,
    data_of,
)
from telemetry.integrations.feeds import FeedOptions
from telemetry.wire.feeds import (
    ENDED,
    ENDPOINTS_PERCENTILES,
    ERRORS,
    INTERRUPTED,
    LATE,
    NO_TEXT,
    NO_TOKENIZER,
    REFUSED,
    SESSION,
    SESSIONS,
    TOOL_CALLS,
    UNCOUNTED,
)

if TYPE_CHECKING:
    from telemetry.client import Counter, Request, Run

KIND: Final = "request"
WINDOW: Final = "tracked"

_SHOWN_CHARS: Final = 200
_MESSAGE_NS: Final = 3_600 * 10**9
"""Maximum time between events of a message: it holds a thousand events, or all events up to the session's end."""
_SPARE_NS: Final = 10**9
"""Reserve for later messages that arrive faster than the first one."""


class EndpointsFeed:
    """A feed from one benchmark.

    A request lasts from `sample.issued` to `sample.complete` or to the first `error` with its id. Later events of a
    failed request are skipped. Events of a request whose start was missed count in `request.after_end`. If too many
    requests are in flight, the oldest counts as expired.

    The tokens of an answer are the tokens of its text. Chunks do not count as tokens: a server may put several
    tokens into one, and a benchmark may publish the first chunk only. If the text is missing or incomplete, the
    number of tokens is unknown, and `feed.uncounted` has the reason. For the time per token, the first chunk counts
    as one token.

    The clock of another machine may be ahead of this machine's, which accepts no future times. In that case, the
    first message determines a shift, and all times are moved back by it.
    """

    topics: Sequence[bytes] = (b"",)
    addresses: Sequence[str] = ("ipc:///dev/shm/zmq_*/ev_pub_*", "ipc:///tmp/zmq_*/ev_pub_*")
    percentiles: Sequence[str] = ENDPOINTS_PERCENTILES

    def __init__(self, run: Run, options: FeedOptions, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.over = False
        self.events = 0
        """Number of events that were understood."""
        self._run = run
        self._options = options
        self._clock = clock
        self._ahead_ns = 0
        """Nanoseconds by which the sender's clock is ahead of this machine's."""
        self._labels = {SESSION: options.session} if options.session else {}
        self._which = f"{SESSION} {options.session}" if options.session else "session"
        self._requests = run.requests(KIND, labels=self._labels)
        self._open: OrderedDict[str, Request] = OrderedDict()
        """Id → request in flight, oldest first."""
        self._chars_of: dict[str, int] = {}
        """Id → length of a prompt that is kept until its request ends."""
        self._chars = 0
        """Total length of these prompts."""
        self._said: set[str] = set()
        """Messages about full limits; each is printed once."""
        self._failed: OrderedDict[str, None] = OrderedDict()
        """Ids of failed requests that have not ended yet, oldest first.

        An OrderedDict, because its oldest entry is found at once. A plain dict gets slow when its first entries are
        removed.
        """
        self._tracks = False
        self._begun = False
        self._words_left = limits.FEED_WORDS
        self._refusals: dict[str, Counter] = {}
        self._errors: dict[str, Counter] = {}
        self._uncounted: dict[str, Counter] = {}
        self._takers: dict[str, Callable[[Event], None]] = {
            decode.STARTED: self._started,
            decode.ENDED: self._ended,
            decode.INTERRUPTED: self._interrupted,
            decode.TRACKING_BEGINS: self._begin_tracking,
            decode.TRACKING_ENDS: self._end_tracking,
            decode.ISSUED: self._issued,
            decode.FIRST: self._first,
            decode.CHUNK: self._chunk,
            decode.COMPLETE: self._complete,
            **dict.fromkeys(decode.ERRORS, self._error),
            **dict.fromkeys(decode.SILENT, _pass),
        }

    def take(self, message: bytes) -> None:
        """Take a message of the benchmark. Never raises."""
        if not self._begun:
            self._compare_clocks(message)
        for event in decode.decode(message):
            if isinstance(event, EventRejection):
                self._refuse(event.reason)
            elif self.over:
                self._refuse("after_ended")
            else:
                self.events += 1
                if not self._begun:
                    self._begin(event)
                self._takers[event.event_type](event)

    def close(self) -> None:
        if self._tracks:
            self._track("ended", "")
        if not self.over and self._begun:
            self._say("the benchmark sent no end message: its last messages may be missing")

    # --- session ---------------------------------------------------------------------------------

    def _begin(self, event: Event) -> None:
        self._begun = True
        self._run.counter(SESSIONS).add(1)
        if event.event_type != decode.STARTED:
            self._run.counter(LATE).add(1)
            self._say("the benchmark started before the feed: its earlier messages are missing")

    def _compare_clocks(self, message: bytes) -> None:
        """Measure the clock difference by the newest event of the first message.

        Outliers among its events are ignored.
        """
        times = sorted(event.timestamp_ns for event in decode.decode(message) if isinstance(event, Event))
        agreeing = [time_ns for time_ns in times if time_ns - times[(len(times) - 1) // 2] < _MESSAGE_NS]
        ahead_ns = max(agreeing, default=0) - self._clock()
        if ahead_ns > 0:
            self._ahead_ns = ahead_ns + _SPARE_NS
            self._say(
                f"the benchmark's clock is {duration_ns(ahead_ns)} ahead of this machine's, so its "
                "times are shifted back: durations and rates are correct, times of day are not"
            )

    def _at(self, event: Event) -> int:
        """Return the time of an event on this machine's monotonic clock, at least 0."""
        return max(0, event.timestamp_ns - self._ahead_ns)

    def _started(self, event: Event) -> None:
        if self.events > 1:
            self._refuse("started_again")
        else:
            self._run.mark(f"{self._which} started", at_ns=self._at(event))

    def _ended(self, event: Event) -> None:
        self.over = True
        self._run.counter(ENDED).add(1)
        self._run.mark(f"{self._which} ended", at_ns=self._at(event))

    def _interrupted(self, event: Event) -> None:
        self._run.mark(f"{self._which} interrupted", at_ns=self._at(event))
        self._run.counter(INTERRUPTED, labels=self._labels).add(1)

    def _begin_tracking(self, _event: Event) -> None:
        if self._tracks:
            self._refuse("tracking_again")
            return
        self._track("began", WINDOW)

    def _end_tracking(self, _event: Event) -> None:
        if not self._tracks:
            self._refuse("not_tracking")
            return
        self._track("ended", "")

    def _track(self, what: str, window: str) -> None:
        """Begin a tracking window for this session's requests, or end it if the name is empty."""
        self._tracks = bool(window)
        self._requests.enter(window)
        self._run.mark(f"{self._which}: tracking {WINDOW} {what}" if self._labels else f"tracking {WINDOW} {what}")

    # --- requests --------------------------------------------------------------------------------

    def _issued(self, event: Event) -> None:
        key = event.sample_uuid
        if not key or key in self._open:
            self._refuse("issued_again" if key else "no_id")
            return
        self._failed.pop(key, None)
        prompt = self._data(event)
        tokens = text = None
        if len(self._open) >= limits.FEED_OPEN:
            self._give_up_oldest()
        if isinstance(prompt, Prompt):
            tokens = prompt.tokens
            text = prompt.text if tokens is None and self._options.texts else None
            text = self._kept(key, text) if text else text
        self._open[key] = self._requests.issue(
            input_tokens=tokens,
            input_text=text,
            conversation=event.conversation_id or None,
            turn=event.turn,
            at_ns=self._at(event),
        )

    def _first(self, event: Event) -> None:
        if (request := self._of(event)) is not None:
            request.first(None, at_ns=self._at(event))

    def _chunk(self, event: Event) -> None:
        if (request := self._of(event)) is not None:
            request.chunk(None, at_ns=self._at(event))

    def _complete(self, event: Event) -> None:
        key = event.sample_uuid
        request = self._of(event)
        if request is None:
            self._failed.pop(key, None)
            return
        self._end(key)
        text = self._output_text(event)
        request.complete(
            output_tokens=0 if text == "" else None,
            finish_reason=event.finish_reason or None,
            output_text=text,
            at_ns=self._at(event),
        )

    def _output_text(self, event: Event) -> str | None:
        """Return the text with all tokens of an answer, or None after counting the reason."""
        if not self._options.texts:
            self._count_uncounted(NO_TOKENIZER)
            return None
        output = self._data(event)
        if not isinstance(output, ModelOutput):
            self._count_uncounted(NO_TEXT)
            return None
        if output.calls_tools or (event.finish_reason in decode.TOOL_FINISHES and not output.text):
            self._count_uncounted(TOOL_CALLS)
            return None
        return output.text

    def _error(self, event: Event) -> None:
        key = event.sample_uuid
        failure = self._data(event)
        what = failure.error_type if isinstance(failure, EndpointFailure) else ""
        what = what or event.event_type.removeprefix("error.")
        if not key:
            self._count_error(what, failure.error_message if isinstance(failure, EndpointFailure) else "")
        elif (request := self._of(event)) is not None:
            request.fail(what, at_ns=self._at(event))
            if self._end(key):
                self._remember_failed(key)

    def _of(self, event: Event) -> Request | None:
        """Return the request, a placeholder that counts calls for an unknown one, or None for a failed one."""
        key = event.sample_uuid
        request = self._open.get(key)
        if request is None and key not in self._failed:
            return self._requests.find(key)
        return request

    def _end(self, key: str) -> bool:
        """Forget a request. Returns True if it was in flight."""
        self._chars -= self._chars_of.pop(key, 0)
        return self._open.pop(key, None) is not None

    def _give_up_oldest(self) -> None:
        key, request = next(iter(self._open.items()))
        self._end(key)
        request.give_up()
        self._say_full(f"more than {limits.FEED_OPEN:,} requests are in flight: the oldest count as expired")

    def _kept(self, key: str, prompt: str) -> str | None:
        """Return the prompt and keep its length until its request ends, or return None beyond the limit."""
        if self._chars + len(prompt) > limits.FEED_OPEN_CHARS:
            self._refuse("prompts_full")
            self._say_full("too many prompts in flight, or too long ones: some tokens are not counted")
            return None
        self._chars_of[key] = len(prompt)
        self._chars += len(prompt)
        return prompt

    def _remember_failed(self, key: str) -> None:
        self._failed[key] = None
        if len(self._failed) > limits.FEED_ENDED_IDS:
            self._failed.popitem(last=False)

    def _data(self, event: Event) -> decode.Data | None:
        """Decode the data of an event.

        Unreadable data is counted and dropped; the event and its time still count.
        """
        data = data_of(event)
        if isinstance(data, EventRejection):
            self._refuse(data.reason)
            return None
        return data

    # --- counters --------------------------------------------------------------------------------

    def _refuse(self, reason: str) -> None:
        counter = self._refusals.get(reason)
        if counter is None:
            counter = self._refusals[reason] = self._run.counter(REFUSED, reason=reason)
        counter.add(1)

    def _count_uncounted(self, reason: str) -> None:
        if reason not in self._uncounted:
            self._uncounted[reason] = self._run.counter(UNCOUNTED, reason=reason)
        self._uncounted[reason].add(1)

    def _count_error(self, what: str, message: str) -> None:
        what = what[: limits.LABEL_VALUE_CHARS]
        reason = what if what in self._errors or len(self._errors) < limits.REASONS else "other"
        if reason not in self._errors:
            self._errors[reason] = self._run.counter(ERRORS, error=reason)
        self._errors[reason].add(1)
        if self._words_left:
            self._words_left -= 1
            self._say(f"the benchmark reports {': '.join(filter(None, (what, message)))}")

    def _say_full(self, message: str) -> None:
        if message not in self._said:
            self._said.add(message)
            self._say(message)

    def _say(self, message: str) -> None:
        """Print a message for the user and add it to the run as a mark."""
        line = printable((f"{self._which}: {message}" if self._labels else message)[:_SHOWN_CHARS])
        self._options.say(line)
        self._run.mark(line)


def _pass(_event: Event) -> None:
    """Ignore an event without a meaning for a run."""
