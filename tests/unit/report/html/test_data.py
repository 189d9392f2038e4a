"""Values inside a page."""

from __future__ import annotations

import json
import math
import re

from telemetry.report.html.data import embedded


def test_no_text_ends_the_block() -> None:
    """Embedded data has no text that looks like markup, and it reads back."""
    value = {"</script><script>alert(1)</script>": ["<!--", "&amp;", "\u2028"], "n": math.nan}
    text = embedded(value, 'a"b')
    found = re.fullmatch(r'<script type="application/json" id="a&quot;b">([^<>&]*)</script>', text)
    assert found
    assert json.loads(found[1]) == {**value, "n": None}
