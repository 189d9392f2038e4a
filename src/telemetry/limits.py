"""Every bound of the system, with its reason. Nothing grows without one."""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

# --- names ---------------------------------------------------------------------------------------
NAME_CHARS = 200  # a metric path a person can still read in a table
LABEL_COUNT = 16  # more labels than this is a record, not a series
LABEL_KEY_CHARS = 64
LABEL_VALUE_CHARS = 200
UNIT_CHARS = 24
TEXT_CHARS = 4_096  # a mark is a line, not a log
UNCOUNTED_CHARS = 256 * KIB  # a long context; longer texts fit in no record
PRODUCER_ID_CHARS = 64
PARAMS_PER_RECORD = 1_000
LOWEST_BOUND = 1e-30  # of a series: its reciprocal, the ticks of one unit, stays finite
HIGHEST_BOUND = 1e30

# --- the wire ------------------------------------------------------------------------------------
FRAME_BYTES = 4 * MIB  # ten times the largest batch we send; larger frames are counted and dropped
FRAME_BYTES_HARD = 64 * MIB  # ZMQ_MAXMSGSIZE: exceeding it disconnects the peer, so it sits far above
BATCH_EVENTS = 16_384  # one message per wake-up: 442 KB, past which larger messages win nothing
BATCH_ROWS = FRAME_BYTES // 27  # canonical rows a frame could hold; more rows in fewer bytes are no producer's
BATCH_RECORDS = 4_096  # definitions of a whole registry fit in one batch
DROP_REASONS = 32
REASON_CHARS = 64  # a word; every snapshot repeats it
PRODUCERS = 4_096  # that have not ended completely: two thousand ranks on one aggregator, twice
PRODUCERS_LISTED = 1_024  # from here on, those that ended completely give up their row
FOLDED_IDS = 65_536  # of those without a row, remembered for late messages and the exact pass: 10 MiB
PRODUCER_IDS = 65_536  # ids of one producer index an array; 256 KiB at most
SEQUENCE_GAPS = 1_024  # ranges of missing batches remembered for each producer
GAPS_OF_ALL = 1 << 17  # shared by more than 128 producers: at the very most 100 MiB, and 17 MB of a checkpoint
FUTURE_BATCHES = 1 << 40  # a sequence number further ahead is a lie
EVENT_NUMBERS = 1 << 50  # seven years at five million a second; a higher event number or drop count is a lie
ID_SLOTS = 1 << 23  # of all producers' ids together: 2,000 instruments of each of 4,096 producers, 32 MiB
GAPS_SHOWN = 32  # ranges of missing batches a snapshot names for each producer

# --- the producer --------------------------------------------------------------------------------
BUFFER_EVENTS = 1_000_000  # 0.5 s of a flood, 100 MB of Python objects at most
RECORDS_BUFFERED = 100_000  # marks, params and the like: rare by nature
RECORDS_BUFFERED_BYTES = 64 * MIB  # of them together
RESEND_RING_BYTES = 64 * MIB  # two million unacknowledged events
RESEND_BATCH_BYTES = 350  # of memory around each of its frames: objects that hold it, and room the encoder left
DATA_SNDHWM = 64  # batches of at most 442 KB: 28 MiB, 0.3 s of a flood
DATA_RCVHWM = 16  # 7 MiB for each producer in the aggregator, which has a bound of its own to keep

# --- the aggregator ------------------------------------------------------------------------------
SERIES = 2_000  # instruments of each kind; the rest go to one overflow instrument
PERCENTILES = 32  # of each series, in every snapshot
SERIES_MOST = 20_000  # 30 MiB a snapshot, which must stay below FRAME_BYTES_HARD
INSTRUMENT_CHARS = 4 * MIB  # names and labels of all instruments together; every snapshot repeats them
FINE_PAGES = 1 << 19  # histogram pages series of 4 and 5 digits may come to fill: 2 GiB
UNKNOWN_ROWS = 200_000  # rows that wait for their definition, over all producers
TURN_FRAMES = 256  # frames taken together, so that a tick or a signal waits for none
TURN_BYTES = 4 * MIB  # about 150k events: 5 ms of work, and as much again for columns
GATHER_S = 0.025  # a socket that gave few events is left alone: fewer turns, and still no full socket
CHUNK_EVENTS = 10_000  # rows vectorised at once: fits the L2 cache
CLOCK_STEP_NS = 10_000_000  # two clocks are read microseconds apart: a larger change between them is a step of one
EXACT_INTEGER = 1 << 53  # float64 counts no further without gaps
SNAPSHOT_RCVHWM = 100  # ten seconds for a subscriber that wants every one
SNAPSHOT_SNDHWM = 8  # a slow subscriber sees fewer snapshots, never older ones
RECORD_SNDHWM = 10_000  # records are rare and must arrive; a gap is filled by catch-up
CONTROL_HWM = 128  # replies hold 2 MiB at most: 256 MiB for a peer that asks and never reads
MARKS_KEPT = 100  # in snapshots; all of them are in the record log
PARAMS_KEPT = 1_000
PARAM_CHARS_KEPT = 256 * KIB  # every snapshot repeats them
WARNINGS_KEPT = 50
CATCHUP_RECORDS = 5_000  # in one reply
CATCHUP_REPLY_BYTES = 2 * MIB  # of lines of the record log; a reply holds one record at least
HISTORY_REPLY_BYTES = 2 * MIB

# --- requests ------------------------------------------------------------------------------------
REQUEST_KINDS = 5_000  # of a process; each has four counters at least, and an aggregator knows SERIES_MOST at most
REASONS = 64  # of failures and of ends, for each kind of request; the rest is called `other`
TURNS = 32  # of a conversation that are told apart; the rest is one
CONVERSATIONS = 100_000  # open at a time, for each kind
EXPIRED_A_TURN = 4_096  # requests of a kind, twice as many of all: some milliseconds of the thread that sends
CHUNKS_HELD = 4_096  # times kept until a request's outcome is known; more of them are recorded before
EXTENT_ROWS = 1 << 21  # later than all beginnings so far: durations and tokens of a million in flight, 80 MiB
UNCOUNTED_TEXTS = 1 << 20  # waiting for their tokens to be counted
UNCOUNTED_BYTES = 64 * MIB  # of them together: each checkpoint repeats them

# --- steps ---------------------------------------------------------------------------------------
AXES = 64  # of a run: roles such as train, rollout, eval
STEP_GRACE_S = 30.0  # after the first producer ended a step, for the others
STEPS_OPEN = 10_000  # of an axis: three seconds of 3,000 a second; beyond that the oldest is closed as it is
STEPS_KEPT = 256  # closed ones of an axis whose producers' values are kept, so that late ones correct them
STEP_VALUES = 1 << 20  # of all open and kept steps and producers together: 100 MiB; beyond that kept ones go first
STEP_UNITS = 4  # values that a step without any takes the place of, and so does each producer in it
STEP_NAMES_KNOWN = 20_000  # that a producer has checked; a name beyond them is checked at each call
STEP_NAMES_SHOWN = 2_000  # whose newest values are in a snapshot, over all axes; as many as there are instruments
STEP_NAME_CHARS_SHOWN = 256 * KIB  # of them together: every snapshot repeats them
STEP_PRODUCERS_SHOWN = 32  # that an open step waits for, in a snapshot
STEP_CLAIMS = 16  # of a producer on an axis, that count once what is missing has come: one for each gap
STEP_PATTERNS = 100  # with wildcards, of an axis: each new name is tried against all of them
TABLE_COLUMNS = 256
TABLE_ROWS = 10_000
BINS = 1_024  # of a distribution that a producer counted

# --- backends ------------------------------------------------------------------------------------
BACKENDS = 32  # writers beside one run: a process each
BACKEND_NAME_CHARS = 64
BACKEND_QUEUE_ITEMS = 10_000  # read and not yet written; what follows waits in the run directory
BACKEND_QUEUE_BYTES = 32 * MIB  # of memory, for them and for the batch that is being written each
BACKEND_BATCH_ITEMS = 1_000  # written at once, then acknowledged
BACKEND_BATCH_S = 0.5  # for a batch to fill: a tracker is called twice a second at most while little comes
BACKEND_LOG_BYTES = 8 * MIB  # of what a tracker's library says
BACKEND_CALL_S = 60.0  # of one call into a tracker's library; one that takes longer hangs, and its process is ended
BACKEND_TRIES = 4  # of one batch that is not said to be temporary; then it is taken apart to find what is refused
BACKEND_RETRY_S = 0.5  # before the second try; then twice as long each time, with as much again by chance
BACKEND_RETRY_MOST_S = 30.0
BACKEND_ASKED_MOST_S = 600.0  # a server that asks for a longer wait may be mistaken, and a run has an end
BACKEND_BREAKER_FAILURES = 5  # in a row; then nothing is tried for a while
BACKEND_STATUS_S = 0.5  # between two reports of a writer
BACKEND_SILENT_S = 5.0  # without a report a writer is called silent
BACKEND_FINISH_S = 30.0  # after the run's end, for what is not delivered yet
BACKEND_PICTURE_BYTES = 16 * MIB  # of an image by reference; of a larger one the reference alone is written

# --- tokens --------------------------------------------------------------------------------------
TOKEN_WORKERS = 64  # processes of one core and 40 MiB each
TOKEN_BATCH_BYTES = 256 * KIB  # of records whose texts go to a worker at once: a quarter of a second of its work
TOKEN_BATCH_TEXTS = 1_000  # of them; what they come to are two records each, of one batch
TOKEN_BATCH_S = 30.0  # for one batch, also if it is one text of a MiB; a worker that takes longer hangs
TOKEN_START_S = 10.0  # until a worker has read its tokenizer: 17 MB of it take one second
TOKEN_ANSWERS_A_TURN = 16  # of workers, each at most a few thousand events

# --- feeds ---------------------------------------------------------------------------------------
FEED_FRAME_BYTES = 512 * MIB  # a thousand prompts of half a MiB in one message; a larger one disconnects the peer
FEED_RCVHWM = 1_000  # messages, each of up to a thousand events; beyond that they wait at whoever sends them
FEED_BATCH_EVENTS = 65_536  # of one message: sixty times what its sender collects
FEED_ID_CHARS = 256  # of a request or a conversation that somebody else names
FEED_ENDED_IDS = 100_000  # of failed requests, remembered so that what follows their failure is no surprise
FEED_OPEN = 1_000_000  # requests of a sender in flight: 0.5 GiB; one more, and the oldest is given up
FEED_OPEN_CHARS = 512 * MIB  # of their prompts, kept until they end: more than any list of questions has
FEED_PLACES = 16  # of senders looked for, the newest: what is left of older ones is many files
FEED_SESSIONS = 32  # of a command that are told apart, at some forty instruments each; the rest is one
FEED_WORDS = 20  # marks that a feed makes of what others report; all of it is counted

# --- connections ---------------------------------------------------------------------------------
DESCRIPTORS_KEPT = 1_024  # or half of all: for files, and for peers accepted before new ones can be turned away
BACKLOG = 32  # connections the kernel holds for ZeroMQ, of each socket: they are accepted even when it is too late
HANDSHAKE_S = 5.0  # until a peer has introduced itself; one that says nothing takes a descriptor for that long

# --- gates ---------------------------------------------------------------------------------------
GATES = 100  # of one run: more is a test suite
GATE_CHARS = 1_000  # one line of text that a person can still check
GATE_OPERANDS = 64  # so that reading and printing one never goes deep
GATE_ABORT_AFTER_S = 10.0  # a percentile of the whole run may recover; one that missed its limit for so long counts
ABORT_KILL_S = 10.0  # what a command that was told to end has for it; then it is killed

# --- keys ----------------------------------------------------------------------------------------
TRUSTED_KEYS = 1_000  # files looked at once a second and at handshakes; 3 ms
KEY_FILE_BYTES = 4 * KIB  # a key is 40 characters; larger is something else
HANDSHAKES_A_TURN = 64  # answered at once, so that a crowd of strangers delays no tick

# --- the run directory ---------------------------------------------------------------------------
JOURNAL_SEGMENT_BYTES = 256 * MIB
JOURNAL_CAP_BYTES = 4 * GIB
HISTORY_CAP_BYTES = GIB  # 2,000 series of wide spread for a day; beyond that older parts get coarser
RECORDS_CAP_BYTES = GIB  # six million marks; a flood of them takes 26 MB/s
HISTORY_UNPACKED_BYTES = 4 * MIB  # an interval may come to it however few its bytes: 20,000 idle series, four times
HISTORY_UNPACKED_TIMES = 64  # as large as its bytes, beyond that; deflate alone would make a thousand of one
EXACT_MEMORY_BYTES = 64 * MIB  # values kept at once by the exact pass
EXACT_EVENTS = BATCH_EVENTS  # it looks at a full batch in one go
IPC_PATH_BYTES = 107  # sizeof(sockaddr_un.sun_path) - 1

# --- time ----------------------------------------------------------------------------------------
START_TIMEOUT_S = 10.0
CONTROL_TIMEOUT_S = 5.0
FINISH_TIMEOUT_S = 30.0
DRAIN_TIMEOUT_S = 10.0
TOKEN_BUDGET_S = 60.0  # after the producers' end, for texts whose tokens are not counted yet
EXACT_BUDGET_S = 60.0
TERMINAL_GRACE_S = 1.0  # the terminal snapshot is repeated for this long
BLOCK_TIMEOUT_S = 5.0
RESTARTS = 5  # in a row, of an aggregator that lasts less than RESTART_LASTS_S each time: the next would not either
RESTART_LASTS_S = 10.0  # one that did has them all again, unless the run has been asked to end
RESTART_PAUSE_S = 0.2  # before the second of them, then twice as long each time: what is in the way may pass
RESTART_TIMEOUT_S = 30.0  # until it listens: it reads one segment of the journal, ten million events, first
RETURN_S = 10.0  # a restart takes one or two seconds; whose address refuses for longer does not come back
RECOVERY_S = 60.0  # a journal at its cap holds 160 million events
LATE_AFTER_S = 3.0  # a producer that has said nothing for this long is late
LOST_AFTER_S = 30.0
WORKER_GRACE_S = 10.0  # after a wrapped command, for its workers that still record
WORKER_GRACE_TOLD_S = 2.0  # the same after SIGTERM or SIGHUP: docker kills us 10 s after it
ORPHAN_GRACE_S = 5.0  # a run without producers ends after this, once it has had one
