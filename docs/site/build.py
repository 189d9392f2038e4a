"""Builder of the site: write its sources, run Zensical, check every link. `make docs` runs it.

python docs/site/build.py
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import generate
import links

ROOT = Path(__file__).parents[2]
SITE = ROOT / "site"
SHIM = "https://unpkg.com/iframe-worker/shim"
"""What the builder loads from the network so that the search works in pages that are opened from a file."""
LOCAL_SHIM = SITE / "docs" / "site" / "assets" / "frame-worker.js"


def main() -> int:
    """Return 0 if the site is complete, 1 if the builder or a link fails."""
    shutil.rmtree(SITE, ignore_errors=True)
    generate.main()
    builder = Path(sys.executable).with_name("zensical")
    done = subprocess.run(
        [builder, "build", "--strict", "--clean"], cwd=ROOT, env=os.environ | {"NO_COLOR": "1"}, check=False
    )
    if done.returncode:
        return 1
    for page in SITE.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        if SHIM in text:
            page.write_text(text.replace(SHIM, os.path.relpath(LOCAL_SHIM, page.parent)), encoding="utf-8")
    broken = list(links.broken(SITE))
    for page_name, link in broken:
        print(f"{page_name}: the link {link} does not work", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
