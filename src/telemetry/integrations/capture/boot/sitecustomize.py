"""Start of `telemetry run --capture` in each Python process. The folder of this file is first in PYTHONPATH."""

import sys


def _chain(here):
    """Run the sitecustomize that this one hides, as if this one was not there."""
    import _frozen_importlib  # loaded before `site`, unlike importlib
    import _frozen_importlib_external

    # Only what comes after this folder: another installation of telemetry may be there, which does the same.
    behind = sys.path[sys.path.index(here) + 1 :] if here in sys.path else []
    spec = _frozen_importlib_external.PathFinder.find_spec("sitecustomize", behind)
    if spec is None or spec.loader is None or spec.origin == __file__:
        return
    mine = sys.modules.pop("sitecustomize", None)
    try:
        module = _frozen_importlib.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules["sitecustomize"] = mine
        raise


try:
    import _telemetry_boot

    _telemetry_boot.boot()
except Exception as error:  # noqa: BLE001 – a fault of this file must not reach the program
    if sys.stderr is not None:
        sys.stderr.write(f"telemetry: nothing is captured: {type(error).__name__}: {error}\n")
finally:
    _chain(__file__.rpartition("/")[0])
