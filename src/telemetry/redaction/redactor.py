"""The redactor: all rules of a process, how often each has masked a value, and output that arrives in pieces."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Final

from telemetry import limits
from telemetry.redaction.named import MASK, NAMED, Hit, is_password, is_plain, is_secret
from telemetry.redaction.secrets import cut_masked, mask_argument, mask_arguments, mask_secret_text, rule_of
from telemetry.redaction.tokens import end_of_private_key, is_in_private_key
from telemetry.wire.spans import DURATION, SELF

_OF_SPANS: Final = (SELF, DURATION)
COUNTER: Final = "telemetry.masked"
"""Counter of masked values, with the name of the rule as COUNTER_LABEL."""
COUNTER_LABEL: Final = "rule"
COUNTER_UNIT: Final = "values"
_HITS: Final = 1_000_000  # more than a batch can hold; a bound for redactors that are never asked


class Redactor:
    """A set of rules that replaces what matches by `***`. Thread-safe.

    Names and labels are cached, because a run has few of them and repeats them. Texts are searched each time: a few
    prechecks decide which rules can match at all.
    """

    def __init__(self, *, secrets: bool = True, personal: bool = False, patterns: Sequence[str] = ()) -> None:
        """Prepare the rules. `patterns` are written as `NAME=REGEX`. Raise UsageError for a wrong one."""
        self._secrets = secrets
        self._personal: ModuleType | None = None
        self._patterns: tuple[tuple[str, re.Pattern[str]], ...] = ()
        if personal:
            from telemetry.redaction import personal as personal_rules  # most processes need none

            self._personal = personal_rules
        if patterns:
            from telemetry.redaction.patterns import check_patterns

            self._patterns = tuple(check_patterns(patterns).items())
        self._hits: deque[str] = deque(maxlen=_HITS)
        """Rules of masked values since the last `take_counts`. Appending needs no lock."""
        self._names: dict[str, str] = {}
        self._labels: dict[tuple[str, str], str] = {}

    @property
    def has_counts(self) -> bool:
        """True if values were masked since the last `take_counts`."""
        return bool(self._hits)

    @property
    def masks_secrets(self) -> bool:
        """True if the rules for secrets apply."""
        return self._secrets

    @property
    def is_off(self) -> bool:
        """True if nothing is masked."""
        return not (self._secrets or self._personal or self._patterns)

    def take_counts(self) -> dict[str, int]:
        """Return the number of masked values by rule since the last call."""
        return Counter(self._hits.popleft() for _ in range(len(self._hits)))

    def inherit_counts(self, other: Redactor) -> None:
        """Count on where another redactor stopped."""
        self._hits = other._hits

    def forget_counts(self) -> None:
        """Begin to count anew, as in a forked child."""
        self._hits.clear()

    def text(self, text: str) -> str:
        """Return a text without what the rules match."""
        return self._masked(text, self._hit)

    def cut_text(self, text: str, max_chars: int) -> str:
        """Return the first characters of a text, masked before it is cut: half a secret does not look like one."""
        return cut_masked(text, max_chars, self.text)

    def name(self, name: str) -> str:
        """Return a name without what the rules match. Cached.

        The instruments of a span are masked as its record is: their prefix is no part of the name for a rule.
        """
        try:
            return self._names[name]
        except KeyError:
            prefix = next((candidate for candidate in _OF_SPANS if name.startswith(candidate)), "")
            masked = prefix + self._masked(name[len(prefix) :], self._hit, is_name=True)
        if masked == name and len(self._names) < limits.REDACT_NAMES_KNOWN:
            self._names[name] = name  # a masked name is counted each time
        return masked

    def labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Return labels whose keys and values have nothing that the rules match. Cached."""
        return {self.name(key): self._label(key, value) for key, value in labels.items()}

    def value(self, key: str, value: Any) -> Any:
        """Return a value, or a map or list of values, as its key and the rules demand."""
        if isinstance(value, str):
            return self._counted(value) if self.hides(key, value) else self._argument(value)
        if isinstance(value, Mapping):
            return {self.name(str(inner)): self.value(str(inner), item) for inner, item in value.items()}
        if isinstance(value, list | tuple):
            is_command = all(isinstance(item, str) for item in value) and not is_secret(key)
            return self.arguments(value) if is_command else [self.value(key, item) for item in value]
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return MASK if is_number and self._is_secret_number(key, value) else value

    def arguments(self, argv: Sequence[str]) -> list[str]:
        """Return a command line without what the rules match."""
        if not self._secrets:
            return [self._argument(word) for word in argv]
        return [self._without_secrets(word) for word in mask_arguments(argv, self._hit)]

    def cells(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Return the rows of a table: a cell is a value whose key is the name of its column."""
        return [[self.value(column, cell) for column, cell in zip(columns, row, strict=False)] for row in rows]

    def hides(self, key: str, value: str) -> bool:
        """Return whether the key alone makes the value a secret."""
        return self._secrets and is_secret(key) and not is_plain(key, value)

    # --- the rules -------------------------------------------------------------------------------

    def _masked(self, text: str, hit: Hit, *, is_name: bool = False) -> str:
        if self._secrets:
            text = mask_secret_text(text, hit, is_name=is_name)
        return self._without_secrets(text)

    def _without_secrets(self, text: str) -> str:
        """Apply the rules that are not about secrets."""
        if self._personal is not None:
            text = self._personal.mask_personal(text, self._hit)
        for name, pattern in self._patterns:
            text = pattern.sub(lambda match, name=name: self._masked_match(name, match[0]), text)  # type: ignore[misc]
        return text

    def _masked_match(self, rule: str, matched: str) -> str:
        if not matched or matched == MASK:
            return matched
        self._hit(rule)
        return MASK

    def _argument(self, text: str) -> str:
        masked = mask_argument(text, self._hit) if self._secrets else text
        return self._without_secrets(masked)

    def _label(self, key: str, value: str) -> str:
        try:
            return self._labels[key, value]
        except KeyError:
            pass
        if self.hides(key, value):
            return self._counted(value)
        masked = self._masked(value, self._hit)
        if masked == value and len(self._labels) < limits.REDACT_NAMES_KNOWN:
            self._labels[key, value] = value
        return masked

    def _is_secret_number(self, key: str, value: int) -> bool:
        if self._secrets and is_password(key):
            self._hit(NAMED)
            return True
        if self._personal is not None and self._personal.is_card(value):
            self._hit(self._personal.CARD)
            return True
        return False

    def _counted(self, value: str) -> str:
        """Return the mask. Count the value under the rule of its own shape, if it has one."""
        if value != MASK:
            self._hit(rule_of(value))
        return MASK

    def _hit(self, rule: str) -> None:
        self._hits.append(rule)


_LINE_BYTES: Final = 64 * limits.KIB  # of an unfinished line; then it is cut at a space
_KEY_BYTES: Final = 16 * limits.KIB  # of a private key; no usual one is longer


class LineMasker:
    """A filter of output, which gives back whole lines. One thread uses it."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = b""
        """Unfinished line."""
        self._key_bytes = 0
        """Number of bytes since a private key began; 0 outside a key."""

    def feed(self, data: bytes) -> bytes:
        """Take output. Return what is masked so far, without an unfinished line."""
        if self._redactor.is_off:
            return data
        self._held += data
        end = self._held_from()
        ready, self._held = self._held[:end], self._held[end:]
        return self._masked(ready)

    @property
    def holds_line(self) -> bool:
        """True if an unfinished line is held."""
        return bool(self._held)

    def rest(self) -> bytes:
        """Return the unfinished line, masked. The output goes on after it or ends."""
        ready, self._held = self._held, b""
        return self._masked(ready)

    def _held_from(self) -> int:
        """Return where the unfinished line begins. A very long line is cut at a space."""
        newest = max(self._held.rfind(b"\n"), self._held.rfind(b"\r"))
        if newest >= 0 or len(self._held) < _LINE_BYTES:
            return newest + 1
        space = self._held.rfind(b" ")
        return space + 1 if space >= 0 else len(self._held)

    def _masked(self, data: bytes) -> bytes:
        if not data:
            return data
        text = data.decode(errors="surrogateescape")
        before = ""
        if self._key_bytes:
            before, text = self._after_key(text)
        is_in_key = self._redactor.masks_secrets and is_in_private_key(text)
        masked = before + self._redactor.text(text)
        if is_in_key:
            self._key_bytes = 1
            masked += "\n"
        return masked.encode(errors="surrogateescape")

    def _after_key(self, text: str) -> tuple[str, str]:
        """Return the text after the private key that began in an earlier piece."""
        end = end_of_private_key(text)
        if end >= 0:
            self._key_bytes = 0
            return "", text[end:]
        self._key_bytes += len(text)
        if self._key_bytes > _KEY_BYTES:
            self._key_bytes = 0
        return "", ""
