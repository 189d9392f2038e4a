"""The redactor: names, labels, values and command lines, and the user's own patterns."""

from __future__ import annotations

import pytest

from telemetry import limits
from telemetry.errors import UsageError
from telemetry.redaction import MASK, Redactor, mask_text

TOKEN = "ghp_" + "a1B2" * 9


def test_a_value_is_masked_by_its_key() -> None:
    """A value is masked by its key at every depth. Numbers stay, except that of a password."""
    settings = {
        "api_key": "abc",
        "max_tokens": "512",
        "db": {"password": 1234, "port": 5432, "urls": ["http://u:pw@h"]},
        "auth": {"enabled": True},
        "command": ["curl", "--token", "abc"],
        f"name of {TOKEN}": None,
    }
    assert Redactor().value("", settings) == {
        "api_key": MASK,
        "max_tokens": "512",
        "db": {"password": MASK, "port": 5432, "urls": [f"http://u:{MASK}@h"]},
        "auth": {"enabled": True},
        "command": ["curl", "--token", MASK],
        f"name of {MASK}": None,
    }


def test_a_value_counts_under_the_rule_of_its_shape() -> None:
    """A token under a secret name counts for its provider, and once."""
    redactor = Redactor()
    assert redactor.value("github_token", TOKEN) == MASK
    assert redactor.text(f"GITHUB_TOKEN={TOKEN}") == f"GITHUB_TOKEN={MASK}"
    assert redactor.value("github_token", MASK) == MASK
    assert redactor.take_counts() == {"github": 2}
    assert redactor.take_counts() == {}


def test_labels_are_masked_by_key_and_by_value() -> None:
    """Each time they come, although they are cached."""
    redactor = Redactor()
    for _ in range(3):
        labels = {"token": "abc", "route": f"/x?a={TOKEN}", "window": "measured", "auth": "none"}
        assert redactor.labels(labels) == {
            "token": MASK,
            "route": f"/x?a={MASK}",
            "window": "measured",
            "auth": "none",
        }
    assert redactor.take_counts() == {"named": 3, "github": 3}


def test_a_column_names_its_cells() -> None:
    """A cell is masked as a value with the name of its column."""
    rows = [["hi", "abc", 1], [TOKEN, None, 2]]
    assert Redactor().cells(["prompt", "api_key", "n"], rows) == [["hi", MASK, 1], [MASK, None, 2]]


def test_the_colons_of_a_metric_name_nothing() -> None:
    """`job:token:rate` is the name of a metric; `token: x` names a secret in a name too."""
    redactor = Redactor()
    assert redactor.name("job:token:rate5m") == "job:token:rate5m"
    assert redactor.name("x token: abcdef") == f"x token: {MASK}"


def test_a_text_is_masked_before_it_is_cut() -> None:
    """A text is masked before it is cut, so no part of a secret is left at the end."""
    redactor = Redactor()
    for most in range(4, len(TOKEN)):
        assert redactor.cut_text(f"key {TOKEN}", most) == f"key {MASK}"[:most]


@pytest.mark.parametrize("inside", range(4, len(TOKEN) + 1, 3))
def test_half_a_secret_at_the_end_of_what_is_searched_is_cut_off(inside: int) -> None:
    """Masked keys make the searched part so short that its end would be seen."""
    begin, end = (f"-----{word} PRIVATE KEY-----" for word in ("BEGIN", "END"))
    keys = f"{begin}{'M' * 1_900}{end} " * 3
    text = (keys + "word " * 2_000)[: 4_096 + 2_000 - inside - 1] + f" {TOKEN}" + " more" * 2_000
    glued = "," * ((6_096 - inside) % (len(TOKEN) + 1)) + f"{TOKEN}," * 400
    for masked in (Redactor().cut_text(text, 4_096), mask_text(text, 4_096)):
        assert masked.startswith(f"{MASK} {MASK} {MASK} ")
        assert TOKEN[:4] not in masked
    assert TOKEN[:4] not in Redactor().cut_text(glued, 4_096)
    assert mask_text("word " * 2_000, 4_096) == ("word " * 2_000)[:4_096]


def test_without_secrets_only_the_other_rules_apply() -> None:
    """Each switch stands for itself."""
    redactor = Redactor(secrets=False, patterns=["ticket=T-[0-9]+"])
    assert redactor.text(f"{TOKEN} a@b.example T-12") == f"{TOKEN} a@b.example {MASK}"
    assert redactor.arguments(["--token", "abc", "T-12"]) == ["--token", "abc", MASK]
    assert redactor.value("password", "abc") == "abc"
    assert not redactor.is_off
    assert Redactor(secrets=False).is_off


def test_patterns_of_the_user_have_names() -> None:
    """Matches of the user's patterns are counted under their names.

    The patterns apply to names, labels and values alike.
    """
    redactor = Redactor(patterns=["ticket=TICKET-[0-9]{4}", "host=[a-z]+[.]corp"])
    assert redactor.text("TICKET-1234 on db.corp, TICKET-12") == f"{MASK} on {MASK}, TICKET-12"
    assert redactor.name("calls of db.corp") == f"calls of {MASK}"
    assert redactor.labels({"x": "TICKET-1234"}) == {"x": MASK}
    assert redactor.value("x", ["TICKET-1234"]) == [MASK]
    assert redactor.take_counts() == {"ticket": 3, "host": 2}


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("ticket", "is not a redaction pattern"),
        ("ticket=", "is not a redaction pattern"),
        ("=x", "is not a redaction pattern"),
        ("a b=x", "is not a redaction pattern"),
        ("ticket=(", "is not a regular expression"),
        ("ticket=x*", "matches an empty text"),
        ("ticket=\\b", "matches an empty text"),
        ("ticket=a\nb", "has a line break"),
        ("ticket=a\u2028b", "has a line break"),
        ("github=x", "has the name of a built-in rule"),
        ("ticket=" + "x" * (limits.REDACT_PATTERN_CHARS + 1), "is too long"),
    ],
)
def test_a_wrong_pattern_is_refused(pattern: str, problem: str) -> None:
    """The error for a wrong pattern says what is wrong and what to write."""
    with pytest.raises(UsageError, match=problem) as caught:
        Redactor(patterns=[pattern])
    assert caught.value.hint


def test_patterns_are_bounded() -> None:
    """The number of patterns is bounded, and each name may stand only once."""
    with pytest.raises(UsageError, match="too many"):
        Redactor(patterns=[f"p{number}=x" for number in range(limits.REDACT_PATTERNS + 1)])
    with pytest.raises(UsageError, match="two redaction patterns"):
        Redactor(patterns=["a=x", "a=y"])


def test_a_child_counts_for_itself() -> None:
    """A forked process does not report what its parent masked."""
    redactor = Redactor()
    redactor.text(TOKEN)
    redactor.forget_counts()
    assert redactor.take_counts() == {}


@pytest.mark.parametrize("prefix", ["span.", "span_self."])
@pytest.mark.parametrize(
    "secret", ["-u me:hunter2!x", "ann@example.org", "T-42", "Authorization: Bearer hunter2!x"]
)
def test_the_instruments_of_a_span_are_masked_as_its_record(prefix: str, secret: str) -> None:
    """The instruments of a span are masked like its record, whatever a rule reads before a secret.

    Masking the name again changes nothing.
    """
    redactor = Redactor(personal=True, patterns=["ticket=^T-[0-9]+"])
    masked = redactor.name(f"{prefix}{secret} done")
    assert masked == prefix + redactor.name(f"{secret} done")
    assert "***" in masked
    assert redactor.name(masked) == masked
