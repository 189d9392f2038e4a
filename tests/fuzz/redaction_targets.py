"""Texts and output in which secrets are masked."""

from __future__ import annotations

from typing import Final

from tests.fuzz.target import Target
from tests.fuzz.text_forms import Text
from tests.unit.redaction.samples import NAMED, ORDINARY, PERSONAL, TOKENS

from telemetry.redaction import MASK, LineMasker, Redactor, named, personal, redactor, tokens
from telemetry.redaction import secrets as secret_rules

_SECRET: Final = "ghp_" + "a1B2" * 9
_PIECES: Final = (7, 64)
"""Sizes of the pieces in which output arrives."""
_RULES: Final = {"personal": True, "patterns": ["ticket=T-[0-9]{3}"]}


class MaskText(Text):
    """Secrets, names of secrets, and what stands between them."""

    token = rb'"[^"]*"|-----[A-Z ]+-----|[\w.@%+/-]+|\s+|.'
    treasures = (
        *(secret.encode() for secrets in TOKENS.values() for secret in secrets),
        *(f"{before}{secret}{after}".encode() for before, secret, after in NAMED),
        *(b"password", b"token", b"api_key", b"=", b": ", b"--token ", b"-u ", b"://a:b@", b"bearer ", b"basic "),
        *(b"-----BEGIN PRIVATE KEY-----", b"-----END PRIVATE KEY-----", b"***", b"T-123", b"a@b.example"),
        *(b"4111 1111 1111 1111", b"%20", b"\\", b'"', b"'", b"\n", b"\r", b"\x1b[0m", b"\xff", "İ".encode()),
        *(b"sk-" * 90, b"eyJ" * 90, b"a" * 400, b'"' * 99, b"x " * 200),
    )


def run_mask(data: bytes) -> int:
    """Text around a secret: the secret is masked, a masked value is counted, and output has no secret either."""
    text = data.decode(errors="surrogateescape")
    rules = Redactor(**_RULES)  # type: ignore[arg-type]
    for masked in (rules.text(text), rules.name(text), rules.value("x", text), rules.labels({"k": text})["k"]):
        assert masked == text or rules.has_counts
    assert all(isinstance(word, str) for word in rules.arguments(text.split(" ")))
    planted = f"{text} {_SECRET} {text}"
    assert _SECRET not in rules.text(planted)
    assert _SECRET not in rules.cut_text(planted * 3, len(text) + 20)
    assert rules.value("password", text) in (text, MASK)
    output = planted.encode(errors="surrogateescape") + b"\n"
    for size in _PIECES:
        masker = LineMasker(rules)
        passed = [masker.feed(output[at : at + size]) for at in range(0, len(output), size)]
        assert _SECRET.encode() not in b"".join([*passed, masker.rest()])
    return 1


def _seeds() -> list[bytes]:
    texts = [
        *ORDINARY,
        *(f"a {secret} b" for secrets in (*TOKENS.values(), *PERSONAL.values()) for secret in secrets),
    ]
    return [text.encode() for text in [*texts, *("".join(sample) for sample in NAMED)]]


TARGETS: Final = (
    Target(
        name="mask",
        run=run_mask,
        form=MaskText(),
        seeds=_seeds,
        covers=(secret_rules, redactor, named, personal, redactor, tokens),
        head=b"password: x ",
        bytes_each=400,
    ),
)
