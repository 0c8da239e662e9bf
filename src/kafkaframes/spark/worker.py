"""What our tasks do for the Python worker of Spark's that they run in. No pyspark."""

from __future__ import annotations

import gc


def settle() -> None:
    """Have the modules that this worker has imported left out of its garbage collections from now on.

    At the end of its first task of ours. PySpark's workers collect after every task, and looked through the 140,000
    objects of numba and others for 60 ms each time (2026-11-21).
    """
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
