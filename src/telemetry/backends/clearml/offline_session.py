"""A script that creates an offline session of ClearML in a separate process.

  python -m telemetry.backends.clearml.offline_session PROJECT NAME TAG…

`Task.init` replaces signal handlers, `sys.exit` and `os.fork`, starts threads, and closes its task at exit, so it
must not run in the writer. The last line of output is the folder of the session, which then contains only the task.
"""

from __future__ import annotations

import sys
from importlib import import_module


def main(project: str, name: str, tags: list[str]) -> None:
    task_class = import_module("clearml").Task
    task_class.set_offline(True)
    task = task_class.init(
        project_name=project,
        task_name=name,
        tags=tags or None,
        reuse_last_task_id=False,
        output_uri=False,
        auto_connect_arg_parser=False,
        auto_connect_frameworks={"detect_repository": False},
        auto_resource_monitoring=False,
        auto_connect_streams=False,
    )
    folder = task.get_offline_mode_folder()
    task.close()
    sys.stdout.write(f"\n{folder}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
