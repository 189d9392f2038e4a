"""The bounds of the system, each with its reason. Nothing grows without a bound."""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

# --- names ---------------------------------------------------------------------------------------
NAME_CHARS = 200  # a metric path a person can still read in a table
LABEL_COUNT = 16  # more labels than this belong in a record, not in a series
LABEL_KEY_CHARS = 64
LABEL_VALUE_CHARS = 200
UNIT_CHARS = 24
TEXT_CHARS = 4_096  # a mark is a line, not a log
UNCOUNTED_CHARS = 256 * KIB  # a long context; longer texts fit in no record
PRODUCER_ID_CHARS = 64
RUN_ID_CHARS = 128  # we make ids of 8; a UUID or a name with a time fits, also in the name of a folder
PARAMS_PER_RECORD = 1_000
DIGITS = 3  # significant figures of a series, unless it asks for others: its percentiles are right within 0.1 %
LOWEST_BOUND = 1e-30  # of a series: its reciprocal, the ticks of one unit, stays finite
HIGHEST_BOUND = 1e30

# --- the wire ------------------------------------------------------------------------------------
FRAME_BYTES = 4 * MIB  # ten times the largest batch we send; larger frames are counted and dropped
FRAME_BYTES_HARD = 64 * MIB  # ZMQ_MAXMSGSIZE: exceeding it disconnects the peer, so it sits far above
BATCH_EVENTS = 16_384  # one message per wake-up: 442 KB; larger messages are not faster
BATCH_ROWS = FRAME_BYTES // 27  # canonical rows that fit in a frame; a producer never sends more
BATCH_RECORDS = 4_096  # definitions of a whole registry fit in one batch
REQUESTS_PER_RECORD = 1_024  # of a request log: 200 KB with thirty chunks each
DROP_REASONS = 32
REASON_CHARS = 64  # a word; every snapshot repeats it
PRODUCERS = 4_096  # that have not ended completely: twice the two thousand ranks of one aggregator
PRODUCERS_LISTED = 1_024  # above this, producers that ended completely lose their row
FOLDED_IDS = 65_536  # of producers without a row, kept for late messages and the exact pass: 10 MiB
PRODUCER_IDS = 65_536  # ids of one producer index an array; 256 KiB at most
SEQUENCE_GAPS = 1_024  # ranges of missing batches remembered for each producer
GAPS_OF_ALL = 1 << 17  # shared by more than 128 producers: at most 100 MiB, and 17 MB of a checkpoint
FUTURE_BATCHES = 1 << 40  # a sequence number further ahead can't be true
EVENT_NUMBERS = 1 << 50  # seven years at five million a second; a higher event number or drop count can't be true
ID_SLOTS = 1 << 23  # ids of all producers: 2,000 instruments of each of 4,096 producers, 32 MiB
GAPS_SHOWN = 32  # ranges of missing batches in a snapshot, for each producer

# --- the producer --------------------------------------------------------------------------------
BUFFER_EVENTS = 1_000_000  # 0.5 s of a flood, 100 MB of Python objects at most
RECORDS_BUFFERED = 100_000  # marks, params and the like: rare by nature
RECORDS_BUFFERED_BYTES = 64 * MIB  # of all of them
RESEND_RING_BYTES = 64 * MIB  # two million unacknowledged events
RESEND_BATCH_BYTES = 350  # memory around each of its frames: objects that hold it, and unused buffer of the encoder
DATA_SNDHWM = 64  # batches of at most 442 KB: 28 MiB, 0.3 s of a flood
DATA_RCVHWM = 16  # 7 MiB for each producer in the aggregator, whose memory is bounded too
RING_OLD_S = 3_600  # after which the ring of a dead process is removed; a live one touches it once a minute
ARTIFACT_COPY_MB = 256  # of a file that is copied into the run directory; the caller waits for it
ARTIFACT_TOTAL_MB = 10_000  # of all copies of a run
ARTIFACT_FREE_BYTES = 256 * MIB  # of the disk that copies leave to the journal

# --- the aggregator ------------------------------------------------------------------------------
SERIES = 2_000  # instruments of each kind; others go to one overflow instrument
PERCENTILES = 32  # of each series, in every snapshot
SERIES_MOST = 20_000  # 30 MiB per snapshot, which must stay below FRAME_BYTES_HARD
INSTRUMENT_CHARS = 4 * MIB  # names and labels of all instruments; every snapshot repeats them
FINE_PAGES = 1 << 19  # histogram pages that series of 4 and 5 digits can fill: 2 GiB
UNKNOWN_ROWS = 200_000  # rows of all producers that wait for their definition
TURN_FRAMES = 256  # frames per turn, so that ticks and signals are not delayed
TURN_BYTES = 4 * MIB  # about 150k events: 5 ms of work, and as much again for columns
GATHER_S = 0.025  # pause after a receive with few events: fewer turns, and the socket does not fill up
CHUNK_EVENTS = 10_000  # rows vectorised at once: fits the L2 cache
CLOCK_STEP_NS = 10_000_000  # two clocks are read microseconds apart: a larger difference means that one was changed
EXACT_INTEGER = 1 << 53  # float64 represents integers without gaps up to here
SNAPSHOT_RCVHWM = 100  # ten seconds for a subscriber that wants every snapshot
SNAPSHOT_SNDHWM = 8  # a slow subscriber sees fewer snapshots, never older ones
RECORD_SNDHWM = 10_000  # records are rare and must arrive; a gap is filled by catch-up
CONTROL_HWM = 128  # replies hold 2 MiB at most: 256 MiB for a peer that sends requests and never reads
CONTROL_READS = 64  # of files, in a queue shared with the run's own writes; 128 MiB of replies
CONTROL_OWED = 2 * PRODUCERS  # replies that wait: for an end and a barrier of each producer
HELLOS = 16  # different ones per producer: a process changes at most its name
PROCESSES_WATCHED = 256  # each costs a descriptor; a run belongs to a starter and a command
DISK_JOBS = 256  # seconds of backlog on a stuck disk; later jobs are refused and counted
MARKS_KEPT = 100  # in snapshots; all of them are in the record log
PARAMS_KEPT = 1_000
PARAM_CHARS_KEPT = 256 * KIB  # every snapshot repeats them
WARNINGS_KEPT = 50
CATCHUP_RECORDS = 5_000  # in one reply
CATCHUP_REPLY_BYTES = 2 * MIB  # of lines of the record log; a reply holds one record at least
HISTORY_REPLY_BYTES = 2 * MIB

# --- requests ------------------------------------------------------------------------------------
REQUEST_KINDS = 5_000  # of a process; each has four counters at least, and an aggregator accepts SERIES_MOST
REASONS = 64  # of failures and of ends, for each kind of request; others are called `other`
TURNS = 32  # distinguished turns of a conversation; all later ones are counted together
CONVERSATIONS = 100_000  # open at a time, for each kind
EXPIRED_A_TURN = 4_096  # requests of a kind, twice as many in total: some milliseconds of the sending thread
CHUNKS_HELD = 4_096  # times kept until the outcome of a request is known; when full, they are recorded earlier
REQUESTS_WAITING = 65_536  # ended since the last flush, for the request log; others are counted as left out
REQUESTS_A_TURN = 4_096  # of these: some 20 ms of the sending thread
EXTENT_ROWS = 1 << 21  # recorded after all beginnings so far: durations and tokens of a million in flight, 80 MiB
UNCOUNTED_TEXTS = 1 << 20  # waiting for their tokens to be counted
UNCOUNTED_BYTES = 64 * MIB  # of these texts: each checkpoint repeats them

# --- spans ---------------------------------------------------------------------------------------
SPAN_NAMES = 200  # of a process that get instruments, two each; spans of further names are records only

# --- steps ---------------------------------------------------------------------------------------
AXES = 64  # of a run: roles such as train, rollout, eval
UNNAMED_AXES = AXES // 2  # of a process whose program names no axis
STEP_GRACE_S = 30.0  # wait for the other producers after the first one ended a step
STEPS_OPEN = 10_000  # per axis: three seconds of 3,000 a second; above this the oldest step is closed early
STEPS_KEPT = 256  # closed steps per axis whose values are kept, so that late values correct them
STEP_VALUES = 1 << 20  # of all open and kept steps and producers: 100 MiB; above this kept steps are dropped first
STEP_TEXT_CHARS = 1 << 20  # texts and distributions of reported axes that a client may ask for
STEP_UNITS = 4  # space of an empty step, in values, and of each producer in it
STEP_NAMES_KNOWN = 20_000  # names that a producer has checked; other names are checked at each call
STEP_NAMES_SHOWN = 2_000  # newest values in a snapshot, over all axes; as many as there are instruments
STEP_NAME_CHARS_SHOWN = 256 * KIB  # of all these names: every snapshot repeats them
STEP_PRODUCERS_SHOWN = 32  # producers listed in a snapshot that an open step waits for
STEP_STATE_NAMES = 10_000  # values in one answer about a step
STEP_CLAIMS = 16  # step ends that wait for missing batches, per producer and axis: one for each gap
STEP_PATTERNS = 100  # patterns with wildcards per axis: each new name is matched against all of them
RANKED_NAMES = 8  # per axis, whose values are kept for each rank
STEP_RANKS = 16_384  # such values of one name in one step
TABLE_COLUMNS = 256
TABLE_ROWS = 10_000
BINS = 1_024  # of a distribution counted by a producer

# --- redaction -----------------------------------------------------------------------------------
REDACT_PATTERNS = 32  # of a user; each searches every text
REDACT_PATTERN_CHARS = 500
REDACT_NAMES_KNOWN = 20_000  # names and labels that a producer has searched; others are searched each time

# --- nodes ---------------------------------------------------------------------------------------
NODES = 2_048  # leaves of one root, each with up to PRODUCERS producers; a further one is refused
NODES_RENEWED = 64  # with more, the rows of live snapshots are renewed once in NODES_REPEATED_NS
NODES_REPEATED_NS = 900_000_000  # leaves send once a second
NODES_APART = 16  # nodes whose gauges are instruments of their own at a root
NODE_GAUGES_APART = 500  # such gauges; with more, all nodes share one gauge for each figure
NODE_FIGURES = 500  # different gauges of nodes that are folded
NODE_GAUGES = 400_000  # gauges of all nodes that are folded: 10,000 nodes with 40 each, about 80 MiB
NODE_NAMES = 16_384  # values of the label `node`
NODE_GAUGES_RELAYED = 8_192  # gauges of nodes below a leaf, which passes each on to its root
NODE_OWING = 32  # producers that have not ended, in the account of a leaf
NODE_WARNINGS = 8  # of a leaf, repeated in its account
NODE_WAITING_BYTES = 64 * MIB  # of intervals that came before the definitions of their instruments
NODE_MEMBERS = 65_536  # producers of all nodes that a root can list
NODE_HELLOS = 65_536  # different ones per leaf, which keeps its id when it is restarted: 10 MB
SEARCH_PARTS = 256  # messages of one search for exact values
SEARCH_PART_BYTES = 512 * KIB  # of such a message, or of one with the values found; a thousand leaves send at once
SEARCH_RANGES = 1 << 19  # of values in one search of a leaf: 20 MiB
SEARCH_BINS = 1 << 16  # into which a range of values is divided
SEARCH_QUEUE_BYTES = 32 * MIB  # of found values that wait to be added; the leaf sends later ones again
SEARCH_SILENT_S = (
    10.0  # without a message, after which a leaf counts as gone; while it works it sends one each second
)

UPSTREAM_CAP_BYTES = 256 * MIB  # of batches that the root has not acknowledged; then intervals are added up
UPSTREAM_BATCH_BYTES = MIB  # of records in a batch of a leaf; a larger record goes alone
UPSTREAM_RING_BYTES = 16 * MIB  # sent and not acknowledged; all others are on disk
UPSTREAM_RECORDS_BYTES = 16 * MIB  # of records that wait for room in the outbox; later ones are dropped
UPSTREAM_UNWRITTEN = 60  # intervals that wait for a slow disk; more are joined
UPSTREAM_REQUESTS = 1_024  # to the thread that talks to the root; older ones are dropped
UPSTREAM_STUCK_S = 60.0  # for a batch that a busy root does not acknowledge; each one matters
UPSTREAM_FINISH_S = 30.0  # after the leaf's end, for a root that does not answer
UPSTREAM_LINGER_S = 60.0  # after that, for questions of the root about the leaf's values
UPSTREAM_SHARE = 0.7  # of the root's drain, for the producers of a leaf; the rest is for the leaf itself

# --- backends ------------------------------------------------------------------------------------
BACKENDS = 32  # writers of one run, one process each
BACKEND_NAME_CHARS = 64
BACKEND_QUEUE_ITEMS = 10_000  # read but not written yet; further items wait in the run directory
BACKEND_QUEUE_BYTES = 32 * MIB  # of memory, for the queue and for the current batch each
BACKEND_BATCH_ITEMS = 1_000  # written together, then acknowledged
BACKEND_BATCH_S = 0.5  # longest wait for a batch to fill: a slow tracker is called at most twice a second
BACKEND_REST = (
    5.0  # time between the starts of two writes, in durations of the first: a quick tracker gets more calls
)
BACKEND_LOG_BYTES = 8 * MIB  # of output of a tracker's library
BACKEND_CALL_S = 60.0  # of one call into a tracker's library; a longer call is a hang, and its process is ended
LAKE_CLOSE_S = 3_600.0  # the same, for writing a whole run to a lake; an hour of a thousand series takes a minute
BACKEND_TRIES = 4  # per batch, without a temporary error; then it is split to find the refused item
BACKEND_RETRY_S = 0.5  # before the second try; doubled each time, plus up to as much at random
BACKEND_RETRY_MOST_S = 30.0
BACKEND_ASKED_MOST_S = 600.0  # a server that asks for a longer wait may be wrong, and a run must end
BACKEND_BREAKER_FAILURES = 5  # in a row; then calls are paused for a while
BACKEND_STATUS_S = 0.5  # between two reports of a writer
BACKEND_STATUS_LEAST_S = 0.02  # the same, while it makes progress
BACKEND_REFUSED = 100  # newest records that a tracker refused, in the report of its writer
BACKEND_SILENT_S = 5.0  # without a report, after which a writer counts as silent
BACKEND_FINISH_S = 30.0  # after the run's end, to deliver the rest
BACKEND_PICTURE_BYTES = 16 * MIB  # of an image by reference; of a larger image only the reference is written
PROMETHEUS_SCRAPES = 8  # at a time; further scrapes are closed and retry later
PROMETHEUS_CLIENT_S = 10.0  # for each read and write of a slow client

# --- notifications ---------------------------------------------------------------------------------
NOTIFY_URLS = 32  # receivers of one run; each is called one after the other
NOTIFY_STALLED_S = 300.0  # without an event; a checkpoint or an evaluation of a training run takes minutes
NOTIFY_PER_MINUTE = 5  # of one kind; the rest of the minute becomes one sum
NOTIFY_WAITING = 100  # for a receiver that is down; older ones are dropped and counted
NOTIFY_CALL_S = 20.0  # of sending at once, below the time of a call that counts as a hang
NOTIFY_NAMES = 1_000  # of values that were not finite; later names are not told

# --- tokens --------------------------------------------------------------------------------------
TOKEN_WORKERS = 64  # processes of one core and 40 MiB each
TOKEN_BATCH_BYTES = 256 * KIB  # of records whose texts go to a worker together: a quarter of a second of its work
TOKEN_BATCH_TEXTS = 800  # in such a batch; each text gives up to five records of one result batch
TOKEN_BATCH_S = 30.0  # for one batch, even if it is a single text of a MiB; a slower worker counts as hanging
TOKEN_START_S = 10.0  # to load a worker's tokenizer: 17 MB take one second
TOKEN_ANSWERS_A_TURN = 16  # of workers, with at most a few thousand events each

# --- feeds ---------------------------------------------------------------------------------------
FEED_FRAME_BYTES = 512 * MIB  # a thousand prompts of half a MiB in one message; a larger one disconnects the peer
FEED_RCVHWM = 1_000  # messages of up to a thousand events each; others wait at the sender
FEED_BATCH_EVENTS = 65_536  # of one message: sixty times the usual number
FEED_ID_CHARS = 256  # of request and conversation ids made by other programs
FEED_ENDED_IDS = 100_000  # of failed requests, remembered so that later events of theirs are expected
FEED_OPEN = 1_000_000  # requests in flight per sender: 0.5 GiB; above this the oldest is given up
FEED_OPEN_CHARS = 512 * MIB  # of their prompts, kept until they end: more than any question list has
FEED_PLACES = 16  # newest senders that are read; older ones only left files behind
FEED_SESSIONS = 32  # distinguished sessions of a command, with about forty instruments each; others share one
FEED_WORDS = 20  # marks that a feed makes of reports by others; all reports are counted

# --- captures ------------------------------------------------------------------------------------
LOG_MARKS_A_SECOND = 20  # of a process, also in a burst
LOG_MARKS = 1_000  # of a process; later log messages are only counted
WANDB_BINS = 512  # of a distribution: W&B refuses more
MEDIA_OF_A_LIST = 64  # of one logged list; the rest is counted
TENSORBOARD_REFERENCES = 10_000  # of a process, to what TensorBoard alone can show
TENSORBOARD_SESSIONS = 1_000  # sets of hyperparameters of a process
EVENT_LABEL_SETS = 200  # of each name in RL-Insight's events, with an instrument each; a run has SERIES of a kind
RANKS_LABELLED = 64  # of torchrun: each rank has series of its own, and a run has room for SERIES

# --- the gateway ---------------------------------------------------------------------------------
GATEWAY_BODY_BYTES = 16 * MIB  # of a request, before and after decompression
GATEWAY_BODIES_BYTES = 128 * MIB  # of all bodies that are received or recorded at the same time
GATEWAY_BODY_S = 60.0  # a client that sends slower would hold its memory for as long as it likes
GATEWAY_HEAD_BYTES = 32 * KIB  # of a request: its path and its headers
GATEWAY_HEAD_S = 10.0  # for a head or a handshake, after the connection was made or the last request was answered
GATEWAY_PIPELINED = 16  # requests of one connection that wait for their answers
GATEWAY_CONNECTIONS = 2_048  # with a head each, these have 64 MiB
GATEWAY_GRPC_CONNECTIONS = 1_024  # or a quarter of all descriptors
GATEWAY_GRPC_IDLE_S = 60.0  # a client connects again for its next request
GATEWAY_UNREAD_S = 60.0  # that a client may read nothing of an answer that waits for it
GATEWAY_EVENTS = 10_000  # of one request
GATEWAY_REQUESTS = 1_000  # that wait for the aggregator; further ones are told to retry
GATEWAY_ROWS = BUFFER_EVENTS // 2  # events that wait, in half of the usual buffer
GATEWAY_RECORDS = RECORDS_BUFFERED // 2  # the same, of records
GATEWAY_RECORD_BYTES = RECORDS_BUFFERED_BYTES // 2

IMPORTED_JSON_BYTES = GIB  # of a result file that is one JSON value; it takes four times as much memory
IMPORTED_LABELS = 200  # different values of a label, such as URLs; the rest are called "other"
GATEWAY_OTLP_NUMBERS = 1 << 20  # of all points that are remembered: 100 MiB at most

# --- collectors ----------------------------------------------------------------------------------
COLLECTORS = 16  # of one run, a thread each
SCRAPE_PAGE_BYTES = 16 * MIB  # of metrics: 150 times the page of an LLM server
SCRAPE_BUCKETS = 512  # of one histogram
SCRAPE_PARAMS = 100  # from information metrics of one collector
SCRAPE_TARGETS = 256  # servers of one collector: the nodes of a cluster
SCRAPE_THREADS = 8  # that fetch pages of one collector at the same time
GIT_DIFF_CHARS = MIB  # of uncommitted changes kept on request
ENVIRONMENT_VARIABLES = 200  # parameters, which every snapshot repeats
ENVIRONMENT_PACKAGES = 500  # the same, 30 KB

# --- connections ---------------------------------------------------------------------------------
DESCRIPTORS_KEPT = 1_024  # or half of all: for files, and for peers accepted before new ones can be refused
BACKLOG = 32  # connections that the kernel queues per socket; ZeroMQ accepts them even above the bound
HANDSHAKE_S = 5.0  # until a peer must complete its handshake; a silent one holds a descriptor that long

# --- gates ---------------------------------------------------------------------------------------
GATES = 100  # of one run: more is a test suite
GATE_CHARS = 1_000  # one line of text that a person can still check
GATE_OPERANDS = 64  # so that reading and printing a gate never recurses deeply
GATE_ABORT_AFTER_S = 10.0  # a percentile of the whole run may recover; a miss that lasts this long counts
ABORT_KILL_S = 10.0  # for a command to end after it was asked; then it is killed

# --- several runs --------------------------------------------------------------------------------
SWEEP_RUNS = 1_000  # of one sweep
CALIBRATION_RUNS = 1_000  # of one command

# --- the flight recorder -------------------------------------------------------------------------
FLIGHT_RECORDINGS = 10  # of one run; the last one is for the end of the command
FLIGHT_LEAST_S = 1.0  # of the journal in a recording
FLIGHT_MOST_S = 600.0
FLIGHT_VALUES = 200_000  # in a recording; older ones are left out
FLIGHT_RECORDS = 50_000  # the same, of spans and marks

# --- keys ----------------------------------------------------------------------------------------
TRUSTED_KEYS = 1_000  # files checked once a second and at handshakes; 3 ms
KEY_FILE_BYTES = 4 * KIB  # a key is 40 characters; a larger file is not a key
HANDSHAKES_A_TURN = 64  # answered per turn, so that many unknown peers don't delay ticks

# --- the run directory ---------------------------------------------------------------------------
JOURNAL_SEGMENT_BYTES = 256 * MIB
JOURNAL_CAP_BYTES = 4 * GIB
HISTORY_CAP_BYTES = GIB  # 2,000 series of wide spread for a day; above this older data gets coarser
RECORDS_CAP_BYTES = GIB  # six million marks; a flood of them takes 26 MB/s
FACTS_BYTES = 16 * MIB  # of a manifest or of the state of a writer: eight times the longest command line
RESULT_BYTES = 128 * MIB  # of a result: four times that of SERIES_MOST
KEYS_BYTES = 64 * MIB  # of the names in a history: five times INSTRUMENT_CHARS of each kind
RECORD_LINE_BYTES = 32 * MIB  # a record of FRAME_BYTES in JSON, with all its characters escaped
SEGMENT_FRAME_BYTES = 128 * MIB  # in a journal or history: twice the largest checkpoint
REQUEST_LOG_CAP_BYTES = 256 * MIB  # a million requests with thirty chunks each
OUTPUT_LOG_BYTES = 8 * MIB  # for each of its two files: the last hundred thousand lines of 80 characters
STACK_LOG_BYTES = 8 * MIB  # of a part of the stack, for each of its two files
RING_DEFINITIONS_BYTES = 64 * MIB  # of one producer: a thousand bytes for each id
RING_INTRODUCTION_BYTES = 16 * KIB
SLICES = 600  # tenths of a second in the history: the first minute with events
SLICE_LAG_NS = 200_000_000  # between an event and its sum: 75 ms on an idle machine, twice that on a busy one
SLICED_INSTRUMENTS = 2_000  # with more, there are no slices: one takes 10 ms then
HISTORY_UNPACKED_BYTES = 4 * MIB  # always allowed, whatever the packed size: 20,000 idle series, four times
HISTORY_UNPACKED_TIMES = 64  # ratio allowed above that size; deflate alone would allow a thousand
EXACT_MEMORY_BYTES = 64 * MIB  # values kept at once by the exact pass
EXACT_EVENTS = BATCH_EVENTS  # a full batch is processed at once
PATH_CHARS = 4_096  # PATH_MAX of Linux
IPC_PATH_BYTES = 107  # sizeof(sockaddr_un.sun_path) - 1

# --- reports -------------------------------------------------------------------------------------
READ_CURVES_BYTES = GIB  # of a record log that is read for curves: four million steps, twenty seconds
READ_SPANS_BYTES = 256 * MIB  # the same, for spans and slow ranks: a few seconds
READ_REQUESTS_BYTES = 32 * MIB  # of a request log: about a second of work
READ_HISTORY_BYTES = 128 * MIB  # by default: five seconds of work, five hours of a thousand busy series

# --- time ----------------------------------------------------------------------------------------
START_TIMEOUT_S = 10.0
CONTROL_TIMEOUT_S = 5.0
FINISH_TIMEOUT_S = 30.0
DRAIN_TIMEOUT_S = 10.0
TOKEN_BUDGET_S = 60.0  # after the producers' end, for texts that are not counted yet
EXACT_BUDGET_S = 60.0
TERMINAL_GRACE_S = 1.0  # the terminal snapshot is repeated for this long
BLOCK_TIMEOUT_S = 5.0
RESTARTS = 5  # in a row, of an aggregator that lasts less than RESTART_LASTS_S each time: then give up
RESTART_LASTS_S = 10.0  # an aggregator that lasts this long resets the count, unless the run was asked to end
RESTART_PAUSE_S = 0.2  # before the second restart, then doubled each time: the obstacle may disappear
RESTART_TIMEOUT_S = 30.0  # until it listens: first it reads one segment of the journal, ten million events
RETURN_S = 10.0  # a restart takes one or two seconds; after a longer refusal the aggregator is gone
RECOVERY_S = 60.0  # a journal at its cap holds 160 million events
LATE_AFTER_S = 3.0  # without a message, after which a producer is late
LOST_AFTER_S = 30.0
WORKER_GRACE_S = 10.0  # after a wrapped command, for its workers that still record
WORKER_GRACE_TOLD_S = 2.0  # the same after SIGTERM or SIGHUP: docker kills the process 10 s after it
ORPHAN_GRACE_S = 5.0  # a run whose producers are all gone ends after this
