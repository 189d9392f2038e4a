"""The scaffold: one file, and a policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from telemetry.report.html.document import SCRIPTS as report_scripts
from telemetry.report.html.page import SCRIPTS as page_scripts
from telemetry.report.html.page import asset, page

ELEMENTS = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


def test_only_what_is_ours_may_run() -> None:
    """The policy names each script and style by its hash, and forbids all else."""
    text = page("t", "<p>b</p>", "telemetry.x = 1;")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy
    rules = dict(rule.split(" ", 1) for rule in policy[1].split("; "))
    assert rules["default-src"] == "'none'"
    assert {rules["base-uri"], rules["form-action"]} == {"'none'"}
    assert "unsafe" not in policy[1]
    for kind, code in ELEMENTS.findall(text):
        found = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        assert f"'sha256-{found}'" in rules[f"{kind}-src"].split()
    assert len(ELEMENTS.findall(text)) == 7


def test_nothing_comes_from_outside() -> None:
    """The page has no address that a browser would ask. The name of a namespace is no address."""
    text = page("t", "").replace("http://www.w3.org/2000/svg", "")
    assert re.findall(r"https?:|//\w+\.\w|@import|url\(|\bsrc=", text) == []


def test_a_title_is_text() -> None:
    """The title of a page is escaped, whatever a run is called."""
    text = page("</title><script>alert(1)</script>\x1b[2J", "")
    assert "<title>&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[2J</title>" in text


@pytest.mark.parametrize("script", ["a = '</script>'", "a = '</SCRIPT '", "a = '<!--'"])
def test_a_script_that_would_end_early_is_refused(script: str) -> None:
    """A script that would end early is refused. The scripts are the package's own, so this is a mistake in it."""
    with pytest.raises(ValueError, match="would end early"):
        page("t", "", script)


def test_line_ends_are_those_of_the_hash() -> None:
    """A browser takes the hash of what its parser made of the text."""
    for name in ("page.css", *page_scripts, *report_scripts):
        assert "\r" not in asset(name)
