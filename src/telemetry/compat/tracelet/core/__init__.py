"""The parts of Tracelet: experiments, the orchestrator, plugins and their interfaces."""

from telemetry.compat.tracelet.core.experiment import *  # noqa: F403 – the names of Tracelet's own package
from telemetry.compat.tracelet.core.interfaces import *  # noqa: F403
from telemetry.compat.tracelet.core.orchestrator import *  # noqa: F403
from telemetry.compat.tracelet.core.plugins import *  # noqa: F403
