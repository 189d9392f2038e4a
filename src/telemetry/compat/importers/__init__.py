"""Importers: one module per tool, which reads the tool's result files.

An importer is a module, built in or of a package that offers it in the group `telemetry.importers`, with

    TOOL: str                                       # name of the tool in reports
    LOOKS_FOR: str                                  # what its files look like, for messages
    recognizes(file: ResultFile) -> bool            # looks at the beginning of a file, or at the names in a folder
    read(file: ResultFile, results: Results) -> None

Both raise ValueError, or what decoding raises, for a file that they can't read.
"""
