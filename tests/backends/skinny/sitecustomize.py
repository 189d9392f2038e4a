"""For processes with this folder in PYTHONPATH: as after `pip install mlflow-skinny`, which our extra is, without
what the whole of MLflow loads in a third of a second."""

import sys

sys.modules.update(dict.fromkeys(("pandas", "polars")))  # type: ignore[arg-type]
