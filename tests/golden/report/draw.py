"""`python -m tests.golden.report.draw [NAME …]`: the pictures of HTML pages in docs/, from runs that it makes.

Takes five minutes, and chromium (`apt-get install -y chromium`). On a busy machine the runs have gaps, so draw on a
quiet one. A name, such as `report-llm`, draws this picture alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT: Final = Path(__file__).parents[3]
DOCS: Final = ROOT / "docs" / "pictures"
PROGRAMS: Final = Path(__file__).parent / "programs"
EXAMPLES: Final = ROOT / "examples"
WIDTH: Final = 1_200
_TELEMETRY: Final = (sys.executable, "-m", "telemetry")
_PATIENCE_MS: Final = 30_000
_GATES: Final = ("p99(latency{route=/search}) < 40ms", "rate(errors) < 5/s", "lost == 0")


@dataclass(frozen=True)
class Picture:
    """A page, and the part of it that is shown."""

    page: str
    height: int
    dark: bool = False
    drawn: str = "html[data-drawn=true]"
    """Selector of what is there once the page has drawn its charts."""


PICTURES: Final = {
    "report": Picture("checkout", 1_600),
    "report-dark": Picture("checkout", 1_600, dark=True),
    "report-llm": Picture("llm", 1_380),
    "report-training": Picture("training", 1_380),
    "report-compared": Picture("compared", 1_380, drawn=".plot svg path"),
    "report-sweep": Picture("sweep", 1_200),
}
"""Name in docs/pictures → its page."""


def run(name: str, *command: str, options: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Start `telemetry run` of a program."""
    return subprocess.Popen(
        [*_TELEMETRY, "run", "--quiet", "--name", name, *options, "--", "python", *command],
        stdout=subprocess.DEVNULL,
    )


def checkout(folder: Path) -> None:
    gates = [word for gate in _GATES for word in ("--gate", gate)]
    wait(run("checkout", "checkout.py", "--clients", "32", "--seconds", "60", options=gates))
    page("report", "checkout", "-o", str(folder / "checkout.html"))


def llm(folder: Path) -> None:
    load = ("--rate", "25", "--seconds", "60", "--busy", "0.02", "--cut", "0.01", "--stragglers", "0.01")
    limits = ("--goodput", "ttft:200 tpot:8")
    wait(run("chat-load", "llm_load.py", *load, "--stall-at-s", "35", "--stall-s", "2", options=limits))
    page("report", "chat-load", "-o", str(folder / "llm.html"))


def training(folder: Path) -> None:
    wait(run("resnet50", "resnet.py", "--seconds", "40"))
    page("report", "resnet50", "-o", str(folder / "training.html"))


def compared(folder: Path) -> None:
    """Let five runs of each side alternate, so that there is a verdict."""
    for name, faster in 5 * [("before", "1"), ("after", "1.25")]:
        wait(run(name, "checkout.py", "--seconds", "6", "--faster", faster))
    page("compare", "before", "after", "-o", str(folder / "compared.html"))


def sweep(folder: Path) -> None:
    """Let a server that answers eight requests at a time serve 2 to 16 users."""
    values = ("--param", "users=2,4,6,8,12,16", "--goodput", "ttft:100 tpot:20")
    command = ("python", "llm_load.py", "--users", "{users}", "--seconds", "5", "--slots", "8")
    page("sweep", "--quiet", "--name", "llm", *values, "-o", str(folder / "sweep.html"), "--", *command)


PAGES: Final = {"checkout": checkout, "llm": llm, "training": training, "compared": compared, "sweep": sweep}


def wait(process: subprocess.Popen[bytes]) -> None:
    code = process.wait()
    assert code in (0, 3), f"the run ended with exit code {code}"  # 3: a gate is inconclusive


def page(*words: str) -> None:
    """Run a command of telemetry that writes a page."""
    subprocess.run([*_TELEMETRY, *words], check=True, stdout=subprocess.DEVNULL)


def draw(browser: Browser, source: Path, target: Path, picture: Picture) -> None:
    """Draw the top of a page."""
    scheme = "dark" if picture.dark else "light"
    size = {"width": WIDTH, "height": picture.height}
    context = browser.new_context(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
    shown = context.new_page()
    shown.goto(source.as_uri())
    shown.locator(picture.drawn).first.wait_for(state="attached", timeout=_PATIENCE_MS)
    shown.screenshot(path=target)
    context.close()


def main(names: Sequence[str]) -> int:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        print("chromium is missing: apt-get install -y chromium", file=sys.stderr)
        return 1
    wanted = {name: picture for name, picture in PICTURES.items() if not names or name in names}
    with tempfile.TemporaryDirectory(prefix="tm") as temporary, sync_playwright() as playwright:
        folder = Path(temporary)
        for program in (*PROGRAMS.glob("*.py"), *EXAMPLES.glob("*.py")):
            shutil.copy(program, folder)  # reports show the command: it has no path then
        os.chdir(folder)
        os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        for name in dict.fromkeys(picture.page for picture in wanted.values()):
            PAGES[name](folder)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, picture in wanted.items():
            draw(browser, folder / f"{picture.page}.html", DOCS / f"{name}.png", picture)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
