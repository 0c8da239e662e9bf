"""What to do where a log is damaged, in Spark's words; every room that reads logs uses these.

``PERMISSIVE`` gives what Kafka's own reader would hand out, or keeps the damaged bytes as they are; ``DROPMALFORMED``
leaves damaged batches out; ``FAILFAST`` stops at the first damage.
"""

from __future__ import annotations

PERMISSIVE, DROPMALFORMED, FAILFAST = "PERMISSIVE", "DROPMALFORMED", "FAILFAST"
MODES = (PERMISSIVE, DROPMALFORMED, FAILFAST)
