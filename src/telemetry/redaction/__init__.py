"""Redaction: secrets, and on request personal data, are replaced by `***` before they leave a process."""

from telemetry.redaction.named import MASK
from telemetry.redaction.redactor import COUNTER, COUNTER_LABEL, COUNTER_UNIT, LineMasker, Redactor
from telemetry.redaction.secrets import mask_secrets, mask_text

__all__ = [
    "COUNTER",
    "COUNTER_LABEL",
    "COUNTER_UNIT",
    "MASK",
    "LineMasker",
    "Redactor",
    "mask_secrets",
    "mask_text",
]
