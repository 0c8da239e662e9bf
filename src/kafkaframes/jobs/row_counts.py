"""Compare the counts of read and written rows. A job that loses a row fails."""

from __future__ import annotations

from collections.abc import Mapping

from kafkaframes.errors import LogDirError
from kafkaframes.errors.words import count_text, verb_text


def check_row_counts(read: int, written_rows: int, left_out: Mapping[str, int], *, where: str) -> None:
    """Check that every row that was read was written, or omitted for a counted reason.

    >>> check_row_counts(5, 3, {"outside the selected offsets": 2}, where="orders-0")

    Args:
        read, written_rows: number of rows that were read, and number that were written.
        left_out: number of omitted rows by reason.
        where: partition or file, for the error message.

    Raises:
        LogDirError: the sums differ. A difference is a defect of kafkaframes, not of the source.
    """
    counted_rows = sum(left_out.values())
    if written_rows + counted_rows != read:
        reason = (
            f"{count_text(read, 'record')} {verb_text(read, 'was', 'were')} read, "
            f"{written_rows:,} written and {counted_rows:,} left out"
        )
        raise LogDirError(f"{reason}, which does not add up. The output was removed; please report this", file=where)


def format_row_counts(read: int, written_rows: int, left_out: Mapping[str, int]) -> str:
    """Return the numbers of read, written and omitted records as text.

    >>> format_row_counts(5, 3, {"outside the selected offsets": 2})
    '5 records read, 3 written, 2 left out (outside the selected offsets)'
    >>> format_row_counts(5, 5, {})
    '5 records read, 5 written'
    """
    reasons = [f"{number:,} left out ({reason})" for reason, number in sorted(left_out.items()) if number]
    return ", ".join([f"{count_text(read, 'record')} read", f"{written_rows:,} written", *reasons])
