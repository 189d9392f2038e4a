"""The settings: name, type, default, range and meaning of each. One frozen struct for each section.

The JSON Schema, `telemetry config show` and the checks of the loader all read these definitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

from msgspec import Meta, Struct, field

from telemetry import limits

if TYPE_CHECKING:
    from telemetry.wire.report import EarlyRule

PERCENTILE_PATTERN: Final = r"^(100|[1-9][0-9]?(\.[0-9]{0,5}[1-9])?|0\.[0-9]{0,5}[1-9])$"
"""Pattern with one spelling for each percentile above 0 and up to 100: "50" and "99.9", not "50.0" or "099"."""

PERCENTILES: Final = ("50", "75", "90", "95", "99", "99.9", "99.99")

DAY_S: Final = 86_400.0
YEAR_S: Final = 366 * DAY_S

Percentile = Annotated[str, Meta(pattern=PERCENTILE_PATTERN)]


class _Section(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A table of the configuration file."""


class RunConfig(_Section, kw_only=True, frozen=True):
    """The run and the refresh cycle of the aggregator."""

    dir: Annotated[str, Meta(min_length=1, description="Parent folder of the run directories.")] = "runs"
    refresh_hz: Annotated[float, Meta(ge=0.1, le=100, description="Snapshots per second.")] = 10.0
    window_s: Annotated[
        int,
        Meta(
            ge=1, le=3_600, description="Length of the sliding window for rates and window percentiles, in seconds."
        ),
    ] = 10
    percentiles: Annotated[
        tuple[Percentile, ...],
        Meta(
            min_length=1,
            max_length=limits.PERCENTILES,
            description='Percentiles of every series, as decimal strings such as "99.9".',
        ),
    ] = PERCENTILES
    drain_timeout_s: Annotated[
        float,
        Meta(
            ge=0, le=DAY_S, description="Longest wait at the end for events that producers still hold, in seconds."
        ),
    ] = limits.DRAIN_TIMEOUT_S
    terminal_grace_s: Annotated[
        float,
        Meta(ge=0, le=3_600, description="How long the final snapshot is repeated for subscribers, in seconds."),
    ] = limits.TERMINAL_GRACE_S
    orphan_grace_s: Annotated[
        float, Meta(ge=0, le=DAY_S, description="A run ends this many seconds after all its producers are gone.")
    ] = limits.ORPHAN_GRACE_S
    worker_grace_s: Annotated[
        float,
        Meta(
            ge=0,
            le=DAY_S,
            description="Longest wait of `telemetry run` for workers that outlive its command, in seconds.",
        ),
    ] = limits.WORKER_GRACE_S
    step_grace_s: Annotated[
        float,
        Meta(
            ge=0,
            le=DAY_S,
            description="How long a step waits for other producers after the first one ended it, in whole seconds.",
        ),
    ] = limits.STEP_GRACE_S
    request_log_cap: Annotated[
        int,
        Meta(
            ge=64 * limits.KIB,
            description="Size of the request log, in bytes; when it is full, later requests are left out and "
            "counted.",
        ),
    ] = limits.REQUEST_LOG_CAP_BYTES
    nodes: Annotated[
        str,
        Meta(
            description="Nodes that belong to the run: their number, or their names with commas between them. The "
            "run is not complete without the account of each."
        ),
    ] = ""
    fallback_dirs: Annotated[
        tuple[Annotated[str, Meta(min_length=1)], ...],
        Meta(
            max_length=16, description="Folders for the final file, in order, if the run directory is not writable."
        ),
    ] = ()


class EmitConfig(_Section, kw_only=True, frozen=True):
    """The producer inside the measured process."""

    flush_ms: Annotated[
        float,
        Meta(ge=1, le=10_000, description="Longest time an event stays in the producer before it is sent, in ms."),
    ] = 50.0
    buffer_events: Annotated[
        int,
        Meta(
            ge=1_000,
            le=100_000_000,
            description="Events the producer buffers while the aggregator can't be reached.",
        ),
    ] = limits.BUFFER_EVENTS
    policy: Annotated[
        Literal["drop", "block"],
        Meta(
            description="When the buffer is full: `drop` events and count them, or `block` the caller for a while."
        ),
    ] = "drop"
    stragglers: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=limits.NAME_CHARS)], ...],
        Meta(
            max_length=64,
            description="Names of spans, or patterns such as `nccl.*`, in which a rank waits for the others; they "
            "show slow ranks.",
        ),
    ] = ()
    request_log: Annotated[
        bool,
        Meta(
            description="Whether the run directory gets an entry for each request, with the time of each chunk of "
            "its answer."
        ),
    ] = True
    artifact_copy_mb: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000,
            description="Largest file that `artifact(copy=True)` copies into the run directory, in MB; larger ones "
            "are recorded by reference.",
        ),
    ] = limits.ARTIFACT_COPY_MB
    artifact_total_mb: Annotated[
        int,
        Meta(
            ge=0,
            le=100_000_000,
            description="About the size of all copies of artifacts in a run directory, in MB; later ones are "
            "recorded by reference.",
        ),
    ] = limits.ARTIFACT_TOTAL_MB
    block_timeout_s: Annotated[
        float,
        Meta(
            ge=0, le=3_600, description="Longest time a recording call blocks with the policy `block`, in seconds."
        ),
    ] = limits.BLOCK_TIMEOUT_S
    start_timeout_s: Annotated[
        float, Meta(gt=0, le=3_600, description="Longest wait for the aggregator in `start`, in seconds.")
    ] = limits.START_TIMEOUT_S
    finish_timeout_s: Annotated[
        float, Meta(gt=0, le=DAY_S, description="Longest wait for the final result in `finish`, in seconds.")
    ] = limits.FINISH_TIMEOUT_S
    quiet: Annotated[
        bool, Meta(description="Print no summary when a program that started its own run has ended it.")
    ] = False


class JournalConfig(_Section, kw_only=True, frozen=True):
    """The journal of all accepted batches: exact percentiles and recovery need it."""

    enabled: Annotated[
        bool, Meta(description="Write the journal. Without it percentiles have the stated error bound.")
    ] = True
    segment_bytes: Annotated[
        int,
        Meta(
            ge=limits.MIB,
            le=64 * limits.GIB,
            description="Size of a segment file; a new one begins after it, in bytes.",
        ),
    ] = limits.JOURNAL_SEGMENT_BYTES
    cap_bytes: Annotated[
        int,
        Meta(
            ge=limits.MIB,
            description="Size of the whole journal, in bytes; beyond it the oldest segments are deleted.",
        ),
    ] = limits.JOURNAL_CAP_BYTES


class HistoryConfig(_Section, kw_only=True, frozen=True):
    """The per-second history on disk."""

    enabled: Annotated[bool, Meta(description="Write the history.")] = True
    retention_1s_s: Annotated[
        float, Meta(ge=60, le=YEAR_S, description="How long intervals of one second are kept, in seconds.")
    ] = 7_200.0
    retention_10s_s: Annotated[
        float, Meta(ge=60, le=YEAR_S, description="How long intervals of ten seconds are kept, in seconds.")
    ] = DAY_S
    cap_bytes: Annotated[
        int,
        Meta(
            ge=limits.MIB,
            description="Size of the whole history, in bytes; beyond it older time ranges get coarser.",
        ),
    ] = limits.HISTORY_CAP_BYTES


class RecordsConfig(_Section, kw_only=True, frozen=True):
    """The record log: marks, params, steps and other records of the run."""

    cap_bytes: Annotated[
        int,
        Meta(
            ge=limits.MIB,
            description="Size of the record log, in bytes; when it is full, further records are dropped and "
            "counted.",
        ),
    ] = limits.RECORDS_CAP_BYTES


class RetentionConfig(_Section, kw_only=True, frozen=True):
    """Old runs and comparisons of `telemetry ab`, which `telemetry run` and `telemetry serve` remove at their end.

    Nothing is removed by default.
    """

    days: Annotated[
        float,
        Meta(
            ge=0,
            le=36_600,
            description="Days after its end from which a run or comparison is removed; 0: they stay.",
        ),
    ] = 0.0
    keep: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000,
            description="Number of the newest runs and of the newest comparisons that stay, however old they are.",
        ),
    ] = 20


class RedactConfig(_Section, kw_only=True, frozen=True):
    """Secrets and personal data that are replaced by `***` before they leave a process. docs/REDACTION.md."""

    secrets: Annotated[bool, Meta(description="Mask secrets: tokens of providers, passwords, private keys.")] = True
    personal: Annotated[bool, Meta(description="Mask personal data: e-mail addresses and card numbers.")] = False
    patterns: Annotated[
        tuple[Annotated[str, Meta(min_length=1)], ...],
        Meta(
            max_length=limits.REDACT_PATTERNS,
            description="Further rules, each `NAME=REGEX`; in the environment one per line.",
        ),
    ] = ()


class TransportConfig(_Section, kw_only=True, frozen=True):
    """Addresses."""

    bind: Annotated[
        str, Meta(description="Control address, `tcp://host:port` or `ipc://path`; empty: a private ipc address.")
    ] = ""
    insecure: Annotated[
        bool,
        Meta(
            description="Allow a tcp address that is not loopback without keys: no encryption, no authentication."
        ),
    ] = False


class SecurityConfig(_Section, kw_only=True, frozen=True):
    """Keys: who may connect to an aggregator over the network, and how a peer proves its identity."""

    keys_dir: Annotated[
        str,
        Meta(description="Folder of this user's key and of trusted keys; empty: `keys` next to the user's config."),
    ] = ""
    curve: Annotated[
        Literal["auto", "always"],
        Meta(
            description="Which tcp addresses require keys: `auto` for those that other machines reach, or "
            "`always` for loopback too."
        ),
    ] = "auto"


class UpstreamConfig(_Section, kw_only=True, frozen=True):
    """The root of a run on several nodes: an aggregator with an address there is the leaf of its node."""

    address: Annotated[
        str,
        Meta(description="Address of the root, `tcp://HOST:PORT` or `ipc://PATH`; empty: the run has no root."),
    ] = ""
    node: Annotated[
        str,
        Meta(max_length=limits.NAME_CHARS, description="Name of this node at the root; empty: the host name."),
    ] = ""
    cap_bytes: Annotated[
        int,
        Meta(
            ge=64 * limits.KIB,
            description="Size on disk of what the root has not taken yet, in bytes; beyond it later seconds are "
            "added up.",
        ),
    ] = limits.UPSTREAM_CAP_BYTES
    spans: Annotated[bool, Meta(description="Send spans to the root too; otherwise they stay on the node.")] = False
    linger_s: Annotated[
        float,
        Meta(
            ge=0,
            le=DAY_S,
            description="How long an ended leaf stays for the root, which may ask for its values, in seconds.",
        ),
    ] = limits.UPSTREAM_LINGER_S
    finish_timeout_s: Annotated[
        float,
        Meta(
            ge=0, le=DAY_S, description="Longest wait of an ended leaf for a root that does not answer, in seconds."
        ),
    ] = limits.UPSTREAM_FINISH_S


class LimitsConfig(_Section, kw_only=True, frozen=True):
    """Bounds that a user may want to change."""

    series: Annotated[
        int,
        Meta(
            ge=1,
            le=limits.SERIES_MOST,
            description="Limit of instruments of each kind; the rest is counted in one called `overflow`.",
        ),
    ] = limits.SERIES


class TuiConfig(_Section, kw_only=True, frozen=True):
    """The live view, `telemetry top`."""

    theme: Annotated[
        str,
        Meta(
            min_length=1,
            description="Colour theme by name, such as `textual-light` or `ansi-dark`; ctrl+p shows all.",
        ),
    ] = "textual-dark"
    frames_per_s: Annotated[float, Meta(ge=0.1, le=30, description="Upper limit of screen updates per second.")] = (
        4.0
    )
    keys: Annotated[
        dict[str, Annotated[str, Meta(min_length=1)]],
        Meta(
            max_length=64,
            description='Key bindings that replace the defaults, `{ figures = "f" }`; in the environment '
            "`figures=f,reverse=v`.",
        ),
    ] = field(default_factory=dict)
    """Action → key. The live view checks that both exist, because it has the table of actions."""


class GatesConfig(_Section, kw_only=True, frozen=True):
    """Conditions that a run must meet: `telemetry gate`, and `telemetry run`. The language: docs/GATES.md."""

    expressions: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=limits.GATE_CHARS)], ...],
        Meta(
            max_length=limits.GATES,
            description='Default gates, such as "p99(latency) < 250ms"; used when none are given.',
        ),
    ] = ()
    baseline: Annotated[
        str, Meta(description="Run that `baseline` stands for in a gate: directory, run id or name; empty: none.")
    ] = ""
    confident: Annotated[
        bool, Meta(description="Pass only if the whole confidence interval is on the passing side of the limit.")
    ] = False


class EarlyStoppingConfig(_Section, kw_only=True, frozen=True):
    """Upper bounds for percentiles of requests, as in MLPerf's early stopping. docs/STATISTICS.md."""

    confidence: Annotated[float, Meta(gt=0, lt=1, description="Confidence of the bound, between 0 and 1.")] = 0.99
    tolerance: Annotated[
        float,
        Meta(ge=0, lt=0.5, description="How much less than the percentile may be below the bound."),
    ] = 0.0

    @property
    def rule(self) -> EarlyRule:
        """Rule in the form that reports use."""
        from telemetry.wire.report import EarlyRule  # recording needs no reports

        return EarlyRule(confidence=self.confidence, tolerance=self.tolerance)


class TokensConfig(_Section, kw_only=True, frozen=True):
    """The counting of tokens in texts from producers. docs/TOKENS.md."""

    tokenizer: Annotated[
        str, Meta(description="Path of a `tokenizer.json`; if empty, texts to count are reported as failed.")
    ] = ""
    workers: Annotated[
        int, Meta(ge=1, le=limits.TOKEN_WORKERS, description="Processes that count tokens, one core each.")
    ] = 1
    budget_s: Annotated[
        float,
        Meta(
            ge=0,
            le=DAY_S,
            description="Longest wait at the end for texts that are still being counted, in seconds.",
        ),
    ] = limits.TOKEN_BUDGET_S


Pattern = Annotated[str, Meta(min_length=1, max_length=limits.NAME_CHARS)]
"""Pattern of names: `*` matches any text, also empty text and slashes; other characters match themselves."""


class BackendValues(_Section, kw_only=True, frozen=True, omit_defaults=True):
    """The choice of values for a backend, their names there, and how often. docs/BACKENDS.md."""

    include: Annotated[
        tuple[Pattern, ...], Meta(max_length=1_000, description="Patterns of names to export; none: all names.")
    ] = ()
    exclude: Annotated[
        tuple[Pattern, ...],
        Meta(
            max_length=1_000, description="Patterns of names to leave out, even if another pattern includes them."
        ),
    ] = ()
    rename: Annotated[
        dict[Pattern, Pattern],
        Meta(
            max_length=1_000,
            description='Patterns of names and their new names, `{ "train/*" = "t/*" }`; the first match is used.',
        ),
    ] = field(default_factory=dict)
    every_s: Annotated[float, Meta(ge=1, le=DAY_S)] | None = None
    """Seconds between readings, instead of `backends.every_s`."""
    every_steps: Annotated[
        int,
        Meta(
            ge=1, le=1_000_000_000, description="Export only steps that are multiples of this, and the last step."
        ),
    ] = 1


class BackendsConfig(_Section, kw_only=True, frozen=True):
    """Destinations of a run besides its directory: trackers and monitors. docs/BACKENDS.md."""

    to: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=limits.TEXT_CHARS)], ...],
        Meta(
            max_length=limits.BACKENDS,
            description="Default backends of a run, used when none are given, each as for `--to`: "
            "`NAME[:key=value,…]`.",
        ),
    ] = ()
    every_s: Annotated[
        float, Meta(ge=1, le=DAY_S, description="Time between two readings of the instruments, in seconds.")
    ] = 10.0
    finish_timeout_s: Annotated[
        float,
        Meta(ge=0, le=DAY_S, description="Longest wait at the end for data that is not delivered yet, in seconds."),
    ] = limits.BACKEND_FINISH_S
    values: Annotated[
        dict[Annotated[str, Meta(min_length=1, max_length=limits.BACKEND_NAME_CHARS)], BackendValues],
        Meta(
            max_length=limits.BACKENDS,
            description="Values to export, per backend name, or `*` for all others: `[backends.values.wandb]`.",
        ),
    ] = field(default_factory=dict)


EventName = Literal["start", "gate", "stalled", "not_finite", "error", "failed", "interrupted", "ended"]
"""An event of a run that is worth a notification."""


class NotifyConfig(_Section, kw_only=True, frozen=True):
    """Notifications about a run. docs/NOTIFICATIONS.md."""

    urls: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=limits.TEXT_CHARS)], ...],
        Meta(
            max_length=limits.NOTIFY_URLS,
            description="Receivers of notifications, each an address of Apprise such as `ntfy://TOPIC`; they "
            "contain secrets, so they are shown as `ntfy://***`.",
        ),
    ] = ()
    events: Annotated[
        tuple[EventName, ...],
        Meta(
            max_length=8,
            description="Events that notify: `start`, `gate` failed, `stalled`, `not_finite` value of a step, "
            "`error` marks, command `failed`, run `interrupted`, run `ended`.",
        ),
    ] = ("gate", "stalled", "not_finite", "error", "failed", "interrupted", "ended")
    stalled_s: Annotated[
        float,
        Meta(ge=1, le=DAY_S, description="A run without a new event for this long has stalled, in seconds."),
    ] = limits.NOTIFY_STALLED_S


class CollectConfig(_Section, kw_only=True, frozen=True):
    """Figures of the machine beside a run, recorded by a process of its own. docs/COLLECTORS.md."""

    names: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=limits.TEXT_CHARS)], ...],
        Meta(
            max_length=limits.COLLECTORS,
            description="Collectors of every `telemetry run`, each as for `--collect`: `NAME[:key=value,…]`; the "
            "ones that this machine can't have are left out. `none` for no collectors.",
        ),
    ] = ("host", "gpu", "git", "environment")
    interval_s: Annotated[
        float, Meta(ge=0.2, le=3_600, description="Time between two samples of host and GPU, in seconds.")
    ] = 1.0


class Config(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The settings of telemetry."""

    run: RunConfig = field(default_factory=RunConfig)
    emit: EmitConfig = field(default_factory=EmitConfig)
    journal: JournalConfig = field(default_factory=JournalConfig)
    history: HistoryConfig = field(default_factory=HistoryConfig)
    records: RecordsConfig = field(default_factory=RecordsConfig)
    retention: RetentionConfig = field(default_factory=RetentionConfig)
    redact: RedactConfig = field(default_factory=RedactConfig)
    transport: TransportConfig = field(default_factory=TransportConfig)
    security: SecurityConfig = field(default_factory=SecurityConfig)
    upstream: UpstreamConfig = field(default_factory=UpstreamConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    tui: TuiConfig = field(default_factory=TuiConfig)
    gates: GatesConfig = field(default_factory=GatesConfig)
    early_stopping: EarlyStoppingConfig = field(default_factory=EarlyStoppingConfig)
    tokens: TokensConfig = field(default_factory=TokensConfig)
    backends: BackendsConfig = field(default_factory=BackendsConfig)
    collect: CollectConfig = field(default_factory=CollectConfig)
    notify: NotifyConfig = field(default_factory=NotifyConfig)
