"""How much memory bytes from outside may ask for. What a batch may hold in records and headers: ``reasons.py``."""

from __future__ import annotations

# The largest decompressed size of one batch; beyond it is damage.
DEFAULT_LIMIT_BYTES = 512 << 20
# The most memory of a task for batches that are open at once: their decompressed records, and what is kept of each
# record and header. A batch that needs more is opened alone.
DEFAULT_BUDGET_BYTES = 256 << 20
