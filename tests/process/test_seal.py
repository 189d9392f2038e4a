"""`telemetry seal` and `telemetry verify`: cards of real runs, real signatures, and every kind of tampering."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.process.conftest import Ground

from telemetry.report.card import checked, drawn
from telemetry.report.card.card import Difference, check_files
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.seal import sealed

pytestmark = pytest.mark.slow

JOB = """
import random, sys, telemetry, time
random.seed(4)
with telemetry.start("job") as run:
    run.params({"model": "tiny", "rate": 120.0})
    chat, now = run.requests("chat"), time.monotonic_ns()
    for number in range(500):
        start = now + number * 8_000_000
        request = chat.issue(at_ns=start, input_tokens=random.randint(100, 8000))
        request.first(at_ns=start + 50_000_000)
        end = start + random.randint(100_000_000, 900_000_000)
        request.fail("timeout", at_ns=end) if number % 100 == 99 else request.complete(21, at_ns=end)
sys.exit(int(sys.argv[1]))
"""
PLACES = 200


@pytest.fixture(scope="module")
def site() -> Iterator[Ground]:
    """A folder with the run `job`, its cards, and a key."""
    ground = Ground()
    try:
        ground.program("job.py", JOB)
        code, _, err = ground.run("run", "--name", "job", "--", sys.executable, "job.py", "0")
        assert code == 0, err
        code, out, err = ground.run("seal", "job", "-o", "job.svg", "-o", "job.md")
        assert code == 0, err
        assert re.fullmatch(r"sha256 [0-9a-f]{64}\n", out)
        for name in ("key", "other"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", ground.folder / name], check=True)
            public = (ground.folder / f"{name}.pub").read_text()
            (ground.folder / f"{name}.signers").write_text(f'me@example.org namespaces="telemetry" {public}')
        yield ground
    finally:
        ground.close()


@pytest.fixture
def copy(site: Ground, tmp_path: Path) -> Path:
    """A copy of the run directory, in another place."""
    run = next((site.folder / "runs").glob("job-*"))
    return Path(shutil.copytree(run, tmp_path / run.name))


def verified(site: Ground, *words: str) -> tuple[int, str]:
    code, out, err = site.run("verify", *words)
    assert "Traceback" not in err
    return code, out


@pytest.mark.parametrize("card", ["job.svg", "job.md"])
def test_a_card_is_verified_alone_and_with_its_run(site: Ground, copy: Path, card: str) -> None:
    """An untouched card passes, also with a run that was moved."""
    code, out = verified(site, card)
    assert (code, out.splitlines()[-1]) == (0, "verified: the card alone")
    code, out = verified(site, card, str(copy))
    assert (code, out.splitlines()[-1]) == (0, "verified: card, files and figures"), out
    assert "figures: 5 figures as recomputed from the journal" in out or "figures: 6 figures" in out


def test_the_same_run_gives_the_same_card(site: Ground, copy: Path) -> None:
    """A card has no time of its own, and does not depend on where the run is."""
    code, _, err = site.run("seal", str(copy), "-o", "again.svg", "-o", "again.md")
    assert code == 0, err
    for suffix in ("svg", "md"):
        assert (site.folder / f"again.{suffix}").read_bytes() == (site.folder / f"job.{suffix}").read_bytes()


def test_the_card_begins_like_the_report(site: Ground) -> None:
    """The verdict is the first line of the report, and percentiles have bounds."""
    _, out, _ = site.run("report", "job")
    card = checked((site.folder / "job.svg").read_text()).card
    assert f"**{card.headline}**" in (site.folder / "job.md").read_text()
    assert card.headline in out.splitlines()
    assert [figure for figure in card.figures if figure.bounds and figure.low and figure.high]
    assert dict(card.facts)["parameters"] == [("model", "tiny"), ("rate", "120.0")]


def test_every_changed_byte_of_every_file_is_noticed(site: Ground, copy: Path) -> None:
    """A changed byte at 200 places of each sealed file is found, and the file is named."""
    card, directory = checked((site.folder / "job.svg").read_text()).card, RunDirectory.open(copy)
    seeded = random.Random(7)
    folders = {file.path.partition("/")[0] for file in card.files}
    assert folders == {"final_snapshot.json", "manifest.json", "journal", "history", "records", "requests"}
    check_files(directory, card.files)
    for file in card.files:
        path = copy / file.path
        data = path.read_bytes()
        places = {0, len(data) - 1, *seeded.sample(range(len(data)), min(PLACES, len(data)))}
        for at in places:
            changed = bytearray(data)
            changed[at] ^= 1 << seeded.randrange(8)
            path.write_bytes(changed)
            with pytest.raises(Difference, match=f"^{re.escape(file.path)} was changed"):
                check_files(directory, card.files)
        path.write_bytes(data)
    check_files(directory, card.files)


def test_files_that_are_missing_or_new_are_named(site: Ground, copy: Path) -> None:
    """The command exits 1 and names the file; files that are not sealed may come and go."""
    (copy / "report.html").write_text("new")
    (copy / "daemon.log").write_text("other")
    assert verified(site, "job.svg", str(copy))[0] == 0
    (copy / "journal" / "00000001.seg").write_text("new")
    code, out = verified(site, "job.svg", str(copy))
    assert (code, "journal/00000001.seg is not among the sealed files" in out) == (1, True), out
    (copy / "journal" / "00000001.seg").unlink()
    (copy / "history" / "keys.jsonl").unlink()
    code, out = verified(site, "job.svg", str(copy))
    assert (code, "history/keys.jsonl is missing" in out) == (1, True), out


def test_an_edited_card_is_noticed(site: Ground) -> None:
    """A number that was edited in the picture, or in the facts, fails the check of the card alone."""
    for name in ("job.svg", "job.md"):
        text = (site.folder / name).read_text()
        (site.folder / f"edited-{name}").write_text(text.replace(" ms", " µs", 1))
        code, out = verified(site, f"edited-{name}")
        assert (code, "its sealed facts give" in out) == (1, True), out
        (site.folder / f"edited-{name}").write_text(text.replace('"value":', '"value":1', 1))
        code, out = verified(site, f"edited-{name}")
        assert (code, "the sealed facts were changed" in out) == (1, True), out


def test_a_forged_card_fails_with_its_run(site: Ground, copy: Path) -> None:
    """A card that was made anew with a better figure, or another command, passes alone, and fails with the run."""
    card = checked((site.folder / "job.svg").read_text()).card
    better = [
        replace(figure, text="1.00 ms", value=1e6) if " p99" in figure.title else figure for figure in card.figures
    ]
    (site.folder / "forged.svg").write_text(drawn(replace(card, figures=better), ".svg"))
    assert verified(site, "forged.svg")[0] == 0
    code, out = verified(site, "forged.svg", str(copy))
    assert (code, bool(re.search(r"p99: the card has 1\.00 ms .*, the journal gives ", out))) == (1, True), out
    facts = [(label, [("", "rm -rf /")] if label == "command" else values) for label, values in card.facts]
    (site.folder / "forged.svg").write_text(drawn(replace(card, facts=facts), ".svg"))
    code, out = verified(site, "forged.svg", str(copy))
    assert (code, "command: the card has" in out) == (1, True), out


def test_a_forged_result_fails_although_its_files_are_as_sealed(site: Ground, copy: Path) -> None:
    """Figures come from the journal: a result that was edited before it was sealed is found."""
    edit(copy, p99_is="95")
    code, _, err = site.run("seal", str(copy), "-o", "edited.svg")
    assert code == 0, err
    code, out = verified(site, "edited.svg", str(copy))
    assert "files: " in out
    assert (code, bool(re.search(r"p99: the card has .*, the journal gives ", out))) == (1, True), out


def test_a_result_that_is_not_exact_is_compared_within_its_error(site: Ground, copy: Path) -> None:
    """A result by histograms may differ from the journal by their error bound, and not by more."""
    for factor, fails in ((0.9995, 0), (0.99, 1)):
        edit(copy, factor=factor, exact=False)
        code, _, err = site.run("seal", str(copy), "-o", "coarse.svg")
        assert code == 0, err
        code, out = verified(site, "coarse.svg", str(copy))
        assert (code, "within 0.1 %: no time" in out) == (fails, not fails), out


def edit(run: Path, *, p99_is: str = "99", factor: float = 1.0, exact: bool = True) -> None:
    """Give the result of a run other percentiles, with a valid checksum."""
    final = run / "final_snapshot.json"
    document = json.loads(final.read_text())
    document.pop("crc")
    document |= {"exact": exact, "exact_reason": "" if exact else "no time"}
    for series in document["series"]:
        percentiles, least = series["percentiles"], series["min"]
        percentiles["99"] = percentiles[p99_is]
        series["percentiles"] = {key: max(least, value * factor) for key, value in percentiles.items()}
        series |= {"exact": exact, "error_bound": 0.0 if exact else 0.001}
    final.write_bytes(sealed(json.dumps(document, indent=2).encode() + b"\n"))


def test_a_signature_by_ssh(site: Ground) -> None:
    """A trusted key is named; an unknown one is not trusted; another one, and a changed signature, are refused."""
    code, _, err = site.run("seal", "job", "-o", "signed.svg", "-o", "signed.md", "--sign", "key")
    assert code == 0, err
    for card in ("signed.svg", "signed.md"):
        code, out = verified(site, card, "--signers", "key.signers")
        assert (code, "for me@example.org with ED25519 key SHA256:" in out) == (0, True), out
        code, out = verified(site, card)
        assert (code, "key SHA256:" in out, "nobody vouches for this key" in out) == (0, True, True), out
        assert verified(site, card, "--signers", "other.signers")[0] == 1
        assert verified(site, card, "--public-key", "RWQ")[0] == 1
    text = (site.folder / "signed.svg").read_text()
    at = text.index("\nssh ") + 200
    (site.folder / "signed.svg").write_text(text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :])
    code, out = verified(site, "signed.svg", "--signers", "key.signers")
    assert (code, "signature" in out) == (1, True), out
    code, out = verified(site, "job.svg", "--signers", "key.signers")
    assert (code, "no signature" in out) == (1, True), out


def test_a_signature_of_other_facts_is_refused(site: Ground) -> None:
    """A signature can't be moved to another card."""
    site.run("seal", "job", "-o", "moved.svg", "--sign", "key")
    seal = checked((site.folder / "moved.svg").read_text())
    (site.folder / "moved.svg").write_text(drawn(replace(seal.card, name="other"), ".svg", seal.signature))
    for options in ([], ["--signers", "key.signers"]):
        code, out = verified(site, "moved.svg", *options)
        assert (code, "the signature is not valid" in out) == (1, True), out


def test_a_signature_by_minisign(site: Ground) -> None:
    """A key of minisign signs as well, if the program is installed; without it, the error says so."""
    (site.folder / "mini.key").write_text("untrusted comment: minisign secret key\n")
    if shutil.which("minisign") is None:
        code, _, err = site.run("seal", "job", "-o", "mini.svg", "--sign", "mini.key")
        assert (code, "the program minisign is not installed" in err) == (1, True)
        return
    folder = site.folder
    subprocess.run(["minisign", "-G", "-W", "-f", "-p", "mini.pub", "-s", "mini.key"], cwd=folder, check=True)
    code, _, err = site.run("seal", "job", "-o", "mini.svg", "--sign", "mini.key")
    assert code == 0, err
    for key in ("mini.pub", (folder / "mini.pub").read_text().splitlines()[-1]):
        assert verified(site, "mini.svg", "--public-key", key)[0] == 0
    assert "not checked" in verified(site, "mini.svg")[1]
    assert verified(site, "mini.svg", "--signers", "key.signers")[0] == 1


def test_a_signature_by_minisign_needs_the_public_key(site: Ground) -> None:
    """Without it, anything could stand for the signature, so the card is not verified. All else is checked."""
    seal = checked((site.folder / "job.svg").read_text())
    (site.folder / "unchecked.svg").write_text(drawn(seal.card, ".svg", "minisign AAAA"))
    code, out = verified(site, "unchecked.svg", "job")
    assert (code, "figures as recomputed" in out) == (1, True), out
    assert out.splitlines()[-1] == "not verified: the signature is not checked: give --public-key KEY"


def test_a_failed_command_is_on_the_card(site: Ground) -> None:
    """The card shows the failure before the completeness of the data."""
    site.run("run", "--name", "failed", "--", sys.executable, "job.py", "3")
    code, _, err = site.run("seal", "failed", "-o", "failed.svg")
    assert code == 0, err
    card = checked((site.folder / "failed.svg").read_text()).card
    assert card.tone == "bad"
    assert card.alarms[0].startswith("command failed: exit code 3")
    assert verified(site, "failed.svg", "failed")[0] == 0


def test_a_failed_gate_is_on_the_card(site: Ground) -> None:
    """A failed gate is an alarm, and its file is sealed."""
    gate = "p99(chat.latency)<1ms"
    assert site.run("run", "--name", "gated", "--gate", gate, "--", sys.executable, "job.py", "0")[0] == 99
    assert site.run("seal", "gated", "-o", "gated.svg")[0] == 0
    card = checked((site.folder / "gated.svg").read_text()).card
    assert (card.tone, card.alarms, dict(card.facts)["gates"]) == ("bad", ["gates: 1 fail"], [("", "1 fail")])
    assert "gates.json" in [file.path for file in card.files]
    assert verified(site, "gated.svg", "gated")[0] == 0


def test_runs_without_a_card(site: Ground) -> None:
    """A run that goes on, or without a journal, has an error that says why, and so has a file that is no card."""
    site.run("run", "--name", "bare", "--no-journal", "--", sys.executable, "job.py", "0")
    code, _, err = site.run("seal", "bare", "-o", "bare.svg")
    assert (code, "has no journal" in err) == (1, True), err
    aggregator, _ = site.serve()
    code, _, err = site.run("seal", str(next((site.folder / "runs").glob("job-*" + live(site)))), "-o", "live.svg")
    assert (code, "still going" in err) == (1, True), err
    aggregator.terminate()
    aggregator.communicate(timeout=60)
    assert site.run("seal", "job", "-o", "card.png")[0] == 2
    assert site.run("seal", "job", "-o", "card.svg", "--sign", "missing")[0] == 1
    assert site.run("verify", "missing.svg")[0] == 2
    assert site.run("verify", "job.py")[0] == 1


def live(site: Ground) -> str:
    """Return the id of the only live run."""
    [run] = site.live()
    return str(run["run_id"])
