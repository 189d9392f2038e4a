"""Capture of W&B: what a program logs with the library `wandb` is recorded here, too."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary

from telemetry.integrations.capture.captures import Capture
from telemetry.integrations.capture.patching import Observers, Patch
from telemetry.integrations.wandb.source import WandbSource
from telemetry.integrations.wandb.values import put_alert, put_settings

_OBSERVERS: Final = Observers("wandb")
_OWN_ARTIFACTS: Final = ("job", "run_table")
"""Types of artifacts that W&B makes by itself."""
_DEFINE_OPTIONS: Final = ("step_metric", "step_sync", "hidden", "summary", "overwrite")
"""Parameters of `define_metric` after the name, in their order."""

_sources: dict[int, tuple[Any, WandbSource]] = {}
"""Runs that are not finished, with their sources, by `id` of the run."""
_files: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()
"""Original paths of the files of W&B artifacts, which copies them."""


# --- runs ----------------------------------------------------------------------------------------


def _source(run: Any, step: int | None = None) -> WandbSource | None:
    """Return the source of a run, or None if W&B is switched off for it.

    `step` is where the source begins if it is new, by default the step that W&B is at.
    """
    entry = _sources.get(id(run))
    if entry is not None:
        return entry[1]
    if getattr(run, "disabled", False):
        return None
    facts = {name: getattr(run, name, None) for name in ("name", "id", "project", "entity", "group", "job_type")}
    facts["tags"] = list(getattr(run, "tags", None) or ())
    source = WandbSource(facts, dict(run.config.items()), step=run.step if step is None else step)
    _sources[id(run)] = (run, source)
    return source


def _on_start(_result: object, run: Any) -> None:
    _source(run)


def _on_log(
    _result: object,
    run: Any,
    data: Mapping[str, Any],
    step: int | None = None,
    commit: bool | None = None,
    *_more: object,
    **_named: object,
) -> None:
    entry = _sources.get(id(run))
    source = entry[1] if entry is not None else _source(run, _step_before(run, step, commit))
    if source is not None:
        source.log(data, step, commit)


def _step_before(run: Any, step: int | None, commit: bool | None) -> int:
    """Return the step that the run had before a call, for a run that began before the capture was installed."""
    has_ended_row = commit or (commit is None and step is None)
    return int(run.step) - int(bool(has_ended_row))


def _on_define_metric(_result: object, run: Any, name: str, *options: Any, **named: Any) -> None:
    given = dict(zip(_DEFINE_OPTIONS, options, strict=False)) | named
    given.pop("hidden", None)
    given["step_metric"] = getattr(given.get("step_metric"), "name", given.get("step_metric"))
    if (source := _source(run)) is not None:
        source.define(name, **given)


def _on_finish(_result: object, run: Any, exit_code: int | None = None, *_more: object, **_named: object) -> None:
    entry = _sources.pop(id(run), None)
    if entry is not None:
        entry[1].close(exit_code)


def _on_alert(_result: object, _run: Any, title: str, text: str = "", *_more: object, **_named: object) -> None:
    put_alert(title, text)


# --- config and summary --------------------------------------------------------------------------


def _on_config(_result: object, config: Any, changed: Any = None, *_more: object, **_named: object) -> None:
    """Record the changed settings of a run. W&B also makes configs that belong to no run."""
    if not any(run.config is config for run, _ in list(_sources.values())):
        run = getattr(sys.modules.get("wandb"), "run", None)
        if run is not None and run.config is config:
            _source(run)  # which records the whole config
        return
    settings = dict(config.items())
    if isinstance(changed, str):
        names = {changed.strip("-")}
    elif isinstance(changed, Mapping) or hasattr(changed, "__dict__"):
        names = {str(name).strip("-") for name in (changed if isinstance(changed, Mapping) else vars(changed))}
    else:
        names = set(settings)
    put_settings({name: value for name, value in settings.items() if name in names} or settings)


def _on_summary(_result: object, summary: Any, changed: Mapping[str, Any], *_more: object) -> None:
    path: list[str] = []
    while type(summary).__name__ == "SummarySubDict":
        fields = vars(summary)
        path.insert(0, str(fields["_parent_key"]))
        summary = fields["_parent"]
    for run, source in list(_sources.values()):
        if run.summary is summary:
            source.set_summary({".".join([*path, str(name)]): value for name, value in changed.items()})


# --- artifacts -----------------------------------------------------------------------------------


def _on_add(_result: object, artifact: Any, *given: Any, **named: Any) -> None:
    """Keep where a file, a folder or a reference of an artifact comes from."""
    for name, value in zip(("path", "name", "is_tmp"), given, strict=False):
        named[name] = value
    path_or_uri = named.get("path", named.get("local_path", named.get("uri")))
    if isinstance(path_or_uri, str | os.PathLike) and named.get("is_tmp") is not True:
        path = os.fspath(path_or_uri)
        _files.setdefault(artifact, {})[str(named.get("name") or os.path.basename(path.rstrip("/")))] = path


def _on_log_artifact(result: Any, run: Any, artifact_or_path: Any, *_more: object, **_named: object) -> None:
    if result.type in _OWN_ARTIFACTS:
        return
    files = _files.get(result) or {}
    if isinstance(artifact_or_path, str | os.PathLike):
        files = {"": os.fspath(artifact_or_path)}
    if (source := _source(run)) is not None:
        source.put_artifact(result.name.partition(":")[0], result.type, files)


def _on_save(result: Any, run: Any, _pattern: object, base_path: str | os.PathLike[str], *_more: object) -> None:
    """Record the files of a call of `wandb.save`. `result` has the paths of W&B's copies."""
    source = _source(run)
    if source is None:
        return
    for copy in result:
        name = os.path.relpath(copy, run.dir)
        original = os.path.join(base_path, name)
        source.put_artifact(name, "file", {"": original if os.path.exists(original) else copy})


# --- patches -------------------------------------------------------------------------------------


def _first(owner: Any, *names: str) -> str:
    """Return the first name that `owner` has.

    The functions behind the public ones come first: `wandb.log` is a bound method that was made at `wandb.init`.
    """
    return next((name for name in names if hasattr(owner, name)), names[-1])


def _patches_for_runs(module: ModuleType) -> Iterable[Patch]:
    run = module.Run
    after = _OBSERVERS.after
    yield Patch(run, _first(run, "_log", "log"), after(_on_log, "wandb.Run.log"))
    yield Patch(
        run, _first(run, "_define_metric", "define_metric"), after(_on_define_metric, "wandb.define_metric")
    )
    yield Patch(run, _first(run, "_finish", "finish"), after(_on_finish, "wandb.Run.finish"))
    yield Patch(run, _first(run, "_log_artifact", "log_artifact"), after(_on_log_artifact, "wandb.log_artifact"))
    if hasattr(run, "_save"):
        yield Patch(run, "_save", after(_on_save, "wandb.save"))
    yield Patch(run, "alert", after(_on_alert, "wandb.alert"))
    if hasattr(run, "_on_start"):  # else the first call of the run is its start
        yield Patch(run, "_on_start", after(_on_start, "wandb.init"))


def _patches_for_config(module: ModuleType) -> Iterable[Patch]:
    for name in ("update", "setdefaults", "__setitem__", "__setattr__"):
        yield Patch(module.Config, name, _OBSERVERS.after(_on_config, f"wandb.Config.{name}"))


def _patches_for_summary(module: ModuleType) -> Iterable[Patch]:
    yield Patch(module.SummaryDict, "update", _OBSERVERS.after(_on_summary, "wandb.summary.update"))


def _patches_for_artifacts(module: ModuleType) -> Iterable[Patch]:
    for name in ("add_file", "add_dir", "add_reference"):
        yield Patch(module.Artifact, name, _OBSERVERS.after(_on_add, f"wandb.Artifact.{name}"))


_CAPTURE: Final = Capture(
    {
        "wandb.sdk.wandb_run": _patches_for_runs,
        "wandb.sdk.wandb_config": _patches_for_config,
        "wandb.sdk.wandb_summary": _patches_for_summary,
        "wandb.sdk.artifacts.artifact": _patches_for_artifacts,
    },
    "wandb",
)

install: Final = _CAPTURE.install
uninstall: Final = _CAPTURE.uninstall
