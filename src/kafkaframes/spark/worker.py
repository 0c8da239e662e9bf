"""What our tasks do for the Python worker of Spark's that they run in. No pyspark."""

from __future__ import annotations

import gc


def settle() -> None:
    """Have the modules that this worker has imported left out of its garbage collections from now on.

    At the end of its first task of ours, or of its first question about a source. PySpark's workers collect after each
    one, and looked through the 140,000 objects of numba and others for 60 ms each time, those that plan through 64,000
    for 30 ms (2026-11-22).
    """
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
