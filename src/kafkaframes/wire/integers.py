"""Limits of the integer types that Kafka's protocol and file formats use."""

from __future__ import annotations

from typing import Final

MAX_INT8: Final = 2**7 - 1
MIN_INT16: Final = -(2**15)
MAX_INT16: Final = 2**15 - 1
MIN_INT32: Final = -(2**31)
MAX_INT32: Final = 2**31 - 1
MIN_INT64: Final = -(2**63)
MAX_INT64: Final = 2**63 - 1
