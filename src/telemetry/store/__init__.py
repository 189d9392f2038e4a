"""Files: everything a run leaves on disk, and reading it back into the structs of the wire.

    atomic, appendfile, framing      how bytes get there whole
    rundir, liveruns, masking        which directory, which runs are alive, what must not be written
    journal, records, history        what grows while the run goes on
    final, hlog                      what is made of it at the end

Only `history`, `rollup` and `hlog` need numpy, only `hlog` the `hdrhistogram` library.
"""
