"""`python -m tests.golden.tui.draw`: the pictures of docs/, from those that the tests compare.

Needs chromium and the font Fira Code (`apt-get install -y chromium fonts-firacode`).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
STORED: Final = HERE / "__snapshots__" / "test_pictures"
DOCS: Final = HERE.parents[2] / "docs" / "pictures"
PICTURES: Final = {
    "overview": "test_overview[80x24]",
    "series": "test_series[80x24]",
    "producers": "test_producers[80x24]",
    "log": "test_log",
    "compared": "test_series_compared[160x48]",
    "requests": "test_requests[80x24]",
    "steps": "test_steps[80x24]",
    "steps-tables": "test_steps_as_tables[80x24]",
    "curve": "test_curve[160x48]",
    "gauge": "test_value[gauge-80x24]",
    "spans": "test_spans[80x24]",
    "nodes": "test_nodes[160x48]",
}
"""Name in docs/pictures → the stored picture."""
_SIZE: Final = re.compile(r'viewBox="0 0 (\d+)[.\d]* (\d+)')


def draw(source: Path, target: Path, browser: str) -> None:
    """One picture as large as it is. Raises CalledProcessError if the browser fails."""
    size = _SIZE.search(source.read_text())
    assert size is not None, f"{source} says no size"
    subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--hide-scrollbars", f"--screenshot={target}",
            f"--window-size={int(size[1]) + 1},{int(size[2]) + 1}", source.as_uri(),
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip


def main() -> int:
    browser = shutil.which("chromium")
    if browser is None:
        print("chromium is missing: apt-get install -y chromium fonts-firacode", file=sys.stderr)
        return 1
    for name, stored in PICTURES.items():
        draw(STORED / f"{stored}.svg", DOCS / f"{name}.png", browser)
    return 0


if __name__ == "__main__":
    sys.exit(main())
