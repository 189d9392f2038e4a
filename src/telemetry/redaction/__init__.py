"""Redaction: secrets, and on request personal data, are replaced by `***` before they leave a process."""

from telemetry.redaction.arguments import mask_secrets, mask_text
from telemetry.redaction.lines import LineMasker
from telemetry.redaction.named import MASK
from telemetry.redaction.redactor import COUNTER, COUNTER_LABEL, COUNTER_UNIT, Redactor

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
