"""Parse sizes (134217728, 128m, 1g) and times (milliseconds since 1970, or a date in ISO 8601)."""

from __future__ import annotations

import re
from datetime import UTC, datetime


def parse_size(text: str) -> int:
    """Return a size in bytes. Units are powers of 1024, as in Spark's settings.

    >>> parse_size("64m") == parse_size("64MB") == parse_size("67108864") == 64 * 1024 * 1024
    True

    Raises:
        ValueError: ``text`` is not a size, or is 0.
    """
    match = re.fullmatch(r"(\d+)\s*([kmgt]?)(?:i?b)?", text.strip(), re.IGNORECASE)
    if match is None or int(match.group(1)) == 0:
        raise ValueError("must be a size such as 134217728, 128m or 1g")
    return int(match.group(1)) << (10 * " kmgt".index(match.group(2).lower() or " "))


def parse_time(text: str) -> int:
    """Return milliseconds since 1970. A date without a time zone is in UTC.

    >>> parse_time("1760000000000"), parse_time("2025-10-09T08:53:20Z"), parse_time("2025-10-09")
    (1760000000000, 1760000000000, 1759968000000)

    Raises:
        ValueError: ``text`` is not a time, or is a date that does not exist.
    """
    plain = text.strip()
    if plain.removeprefix("-").isdecimal() and plain.isascii() and len(plain) <= 20:
        return int(plain)
    try:
        moment = datetime.fromisoformat(plain)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        reason = "must be milliseconds since 1970, or a date such as 2026-01-31T12:00:00Z"
        raise ValueError(reason) from None
