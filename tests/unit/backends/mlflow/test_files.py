"""Tests of the places of files among the artifacts of a run."""

from __future__ import annotations

import json

from telemetry.backends.items import Artifact, Table, Text
from telemetry.backends.mlflow import files


def test_files_have_places_of_their_own() -> None:
    """A file's place follows from kind, name, step and item. No place leads out of the run's artifacts."""
    text = Text(key="r7", time_ns=0, name="../a/..", axis="train", step=3, text="t")
    table = Table(key="r8", time_ns=0, name="t" * 300, columns=["a"], rows=[[None], ["x"]])
    model = Artifact(key="r9", time_ns=0, name="model", uri="s3://b/m.bin", kind="model", axis="é", step=-1)
    assert files.folder(text) == "texts/=2E.=2Fa=2F.."
    assert files.leaf(text, ".txt") == "train-3.r7.txt"
    assert len(files.folder(table)) == len("tables/") + 120
    assert files.leaf(table, ".json") == "run.r8.json"
    assert json.loads(files.table(table)) == {"columns": ["a"], "data": [[None], ["x"]]}
    assert files.leaf(model, files.ending("/x/y.Png")) == "=C3=A9--1.r9.Png"
    assert files.ending("/x/y") == ".bin"
    assert json.loads(files.reference(model)) == {"uri": "s3://b/m.bin", "kind": "model", "axis": "é", "step": -1}
