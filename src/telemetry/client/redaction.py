"""The rules by which this process masks what it records: one set for the whole process, from its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from telemetry.redaction import Redactor

if TYPE_CHECKING:
    from telemetry.config.schema import RedactConfig


class Redaction:
    """The redactor of this process. Secrets are masked even before the settings are known."""

    def __init__(self) -> None:
        self.redactor = Redactor()
        self.step_names: set[str] = set()
        """Names of step values and axes in which the rules match nothing. A training loop repeats them for ever."""
        self._config: RedactConfig | None = None

    def configure(self, config: RedactConfig | None) -> None:
        """Use the rules of these settings from now on; None leaves them as they are, or reads them.

        Raises ConfigError for settings that can't be read.
        """
        if config is None:
            if self._config is not None:
                return
            from telemetry.config import load

            config = load().config.redact
        if config != self._config:
            self._config = config
            redactor = Redactor(secrets=config.secrets, personal=config.personal, patterns=config.patterns)
            redactor.inherit_counts(self.redactor)
            self.redactor = redactor
            self.step_names = set()

    def rules(self) -> dict[str, object]:
        """Return the rules of the settings, for whoever masks in place of this process."""
        config = self._config
        if config is None:
            return {"secrets": True, "personal": False, "patterns": []}
        return {"secrets": config.secrets, "personal": config.personal, "patterns": list(config.patterns)}

    def after_fork_in_child(self) -> None:
        """Count anew: the counts so far are those of the parent."""
        self.redactor.forget_counts()


REDACTION: Final = Redaction()
