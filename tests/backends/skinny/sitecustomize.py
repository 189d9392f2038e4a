"""A stand-in for `mlflow-skinny`, which our extra installs.

A process with this folder in PYTHONPATH does not load the rest of MLflow, which takes a third of a second.
"""

import sys

sys.modules.update(dict.fromkeys(("pandas", "polars")))  # type: ignore[arg-type]
