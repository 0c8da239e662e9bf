"""Limits of the integer types that Kafka's protocol and file formats use."""

from __future__ import annotations

from typing import Final

MIN_INT32: Final = -(2**31)
MAX_INT32: Final = 2**31 - 1
