"""HDR histograms of many series at once, on numpy.

Words of this package:

* **tick**: the smallest step of a histogram. Values become whole ticks.
* **slot**: a bucket of the histogram: one tick wide for small values, wider for large ones (HdrHistogram's layout).
* **page**: 256 neighbouring slots, the unit of memory. A series has pages only where it has values.
* **cell**: a bucket of the display histogram in a snapshot: four for each doubling (`telemetry.wire.cells`).
* **row** or **line**: the histogram of one series among many.
"""
