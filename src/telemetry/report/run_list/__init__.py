"""A list of runs as one page: their figures, what differs between them, and their curves over each other."""

from telemetry.report.run_list.page import (
    Health,
    ListedRun,
    Room,
    RunDetails,
    details_of,
    live_details,
    run_list_page,
)

__all__ = ["Health", "ListedRun", "Room", "RunDetails", "details_of", "live_details", "run_list_page"]
