"""Other rooms name folders with compiled kernels here: Spark's, what a job was sent.

Each function is called whenever kernels are looked for, and its folder is trusted no more than any other
(``places.py``). This file imports nothing of the package: any room can add to it without loading kernels.
"""

from collections.abc import Callable

OFFERS: list[Callable[[], str | None]] = []
