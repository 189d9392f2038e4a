"""Files: everything a run leaves on disk, and reading it back into the structs of the wire.

    atomic, appendfile, framing      how bytes get there whole
    rundir, runlock, liveruns        which directory, whose it is, which runs are alive
    journal, records                 what grows while the run goes on
    history, levels, rollup          and what happened in each second, ten seconds, minute of it
    final, hlog                      what is made of it at the end
    remains                          what is left of a run that did not come to its end

Only `history`, `levels`, `rollup` and `hlog` need numpy, only `hlog` the `hdrhistogram` library.
"""
