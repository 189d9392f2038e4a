"""`telemetry keys`: made, shown, trusted, revoked."""

from __future__ import annotations

import io
import json
import shlex
import stat
from pathlib import Path

import pytest

from telemetry.cli.main import main

OTHER = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"
WITH_A_DASH = "-98A@pS1C&bM@tR<Nr:ZM-eGF55>ummxFSY{Ooxz"
Said = pytest.CaptureFixture[str]


@pytest.fixture
def folder(root: Path) -> Path:
    """Return the folder with the keys of this test's user."""
    return root.parent / "telemetry" / "keys"


def public_key(capsys: Said) -> str:
    """Make a new pair and return its public key."""
    assert main(["keys", "new"]) == 0
    return capsys.readouterr().out.strip()


def test_a_new_pair_prints_what_others_need(folder: Path, capsys: Said) -> None:
    """The public key alone on stdout, the other side's command on stderr; the secret nowhere."""
    assert main(["keys", "new"]) == 0
    said = capsys.readouterr()
    key = said.out.strip()
    assert stat.S_IMODE((folder / "secret.key").stat().st_mode) == 0o600
    command = shlex.split(said.err.splitlines()[-1].partition("on the other machine: ")[2])
    assert command[:3] == ["telemetry", "keys", "trust"]
    assert command[4] == key
    secret = (folder / "secret.key").read_text().splitlines()[-1]
    assert secret not in said.out + said.err


def test_a_pair_is_replaced_only_by_force(folder: Path, capsys: Said) -> None:
    """A pair is replaced only by `--force`, and the error says so."""
    first = public_key(capsys)
    assert main(["keys", "new"]) == 1
    assert "--force" in capsys.readouterr().err
    assert main(["keys", "new", "--force"]) == 0
    assert capsys.readouterr().out.strip() != first


def test_show(folder: Path, capsys: Said) -> None:
    """`keys show` works before and after there are keys, for people and for programs.

    The secret is nowhere in the output.
    """
    assert main(["keys", "show"]) == 0
    said = capsys.readouterr()
    assert f"folder      {folder}\npublic key  none\n" == said.out
    assert "telemetry keys new" in said.err
    assert main(["keys", "show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"folder": str(folder), "public": None, "trusted": {}}
    key = public_key(capsys)
    assert main(["keys", "trust", "ann@node-1", OTHER]) == 0
    assert main(["keys", "show", "--json"]) == 0
    text = capsys.readouterr().out
    assert json.loads(text) == {"folder": str(folder), "public": key, "trusted": {"ann@node-1": OTHER}}
    assert main(["keys", "show"]) == 0
    text += capsys.readouterr().out
    assert f"ann@node-1  {OTHER}\n" in text
    assert (folder / "secret.key").read_text().splitlines()[-1] not in text


def test_show_names_files_that_are_not_believed(folder: Path, capsys: Said) -> None:
    """Files that are not believed are named on stderr, so that the JSON stays JSON."""
    assert main(["keys", "trust", "ann", OTHER]) == 0
    (folder / "trusted" / "bob").write_text("nonsense")
    assert main(["keys", "show", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["trusted"] == {"ann": OTHER}
    assert "bob contains no public key" in said.err


@pytest.mark.parametrize("way", ["typed", "file", "stdin"])
def test_a_key_comes_from_where_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """A file or a pipe needs no quoting."""
    file = folder.parent.parent / "ann.pub"
    file.write_text(f"{OTHER}\n")
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{OTHER}\n"))
    assert main(["keys", "trust", "ann", {"typed": OTHER, "file": str(file), "stdin": "-"}[way]]) == 0
    path = folder / "trusted" / "ann"
    assert path.read_text() == f"{OTHER}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_key_may_look_like_an_option(folder: Path, capsys: Said) -> None:
    """Other programs make keys that begin with a dash; options are still options."""
    assert main(["keys", "trust", "ann", WITH_A_DASH]) == 0
    assert (folder / "trusted" / "ann").read_text() == f"{WITH_A_DASH}\n"
    assert main(["keys", "trust", "--help"]) == 0
    assert main(["keys", "trust", "bob", "--forc"]) == 2
    assert not (folder / "trusted" / "bob").exists()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["trust", "../ann", OTHER], 2, "not a valid name"),
        (["trust", "ann", OTHER[:-1]], 2, "is not a public key or a file"),
        (["trust", "ann", "."], 1, "can't read"),
        (["trust", "ann", "secret"], 2, "not a public key"),
        (["revoke", "ann"], 1, "no trusted key has the name ann"),
        (["revoke", "/etc/passwd"], 2, "not a valid name"),
    ],
)
def test_mistakes_are_told(folder: Path, capsys: Said, words: list[str], code: int, said: str) -> None:
    """A mistake is an error in one line, and no key is trusted by mistake."""
    public_key(capsys)
    Path("secret").write_text((folder / "secret.key").read_text())
    assert main(["keys", *words]) == code
    assert said in capsys.readouterr().err
    assert not (folder / "trusted").exists()


def test_revoke(folder: Path, capsys: Said) -> None:
    """A revoked key is not trusted any more."""
    assert main(["keys", "trust", "ann", OTHER]) == 0
    assert main(["keys", "revoke", "ann"]) == 0
    assert "no longer trusted" in capsys.readouterr().err
    assert list((folder / "trusted").iterdir()) == []


def test_a_user_whose_name_cannot_be_had_gets_a_placeholder(
    folder: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user without a usable name gets a placeholder, as in a container without a user database."""
    monkeypatch.setattr("getpass.getuser", lambda: "a b")
    assert main(["keys", "new"]) == 0
    assert "keys trust NAME '" in capsys.readouterr().err.replace('"', "'")

    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr("getpass.getuser", nobody)
    assert main(["keys", "new", "--force"]) == 0
    assert "keys trust NAME " in capsys.readouterr().err
