"""Files: everything a run leaves on disk, and reading it back into the structs of the wire.

    atomic, append_file, framing         writing bytes completely or not at all
    run_directory, live_runs             finding a directory, its owner, and live runs
    journal, records                     files that grow during the run
    history, intervals                   events of each second, ten seconds and minute
    final_snapshot, interval_log         files made at the end
    dead_run                             rest of a run that did not end properly

Only `history`, `intervals` and `interval_log` need numpy, only `interval_log` the `hdrhistogram` library.
"""
