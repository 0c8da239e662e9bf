"""Compare the rows that a job read with those that it wrote, so that a job which loses one fails and says so."""

from __future__ import annotations

from collections.abc import Mapping

from kafkaframes.errors import LogDirError


def check_row_counts(
    read: int, written: int, left_out: Mapping[str, int], *, where: str, outcome: str = "nothing is kept"
) -> None:
    """Check that every row that was read was written, or left out for a reason.

    >>> check_row_counts(5, 3, {"outside the selected offsets": 2}, where="orders-0")

    Args:
        read, written: rows.
        left_out: reason to rows.
        where: the partition or file, for the error.
        outcome: what becomes of what was written, for the error.

    Raises:
        LogDirError: the sums differ. That is a defect of this program, never of the source.
    """
    explained = sum(left_out.values())
    if written + explained != read:
        reason = f"{read:,} records were read, {written:,} written and {explained:,} left out"
        raise LogDirError(f"{reason}, which does not add up: {outcome}; please report this", file=where)


def row_counts_text(read: int, written: int, left_out: Mapping[str, int]) -> str:
    """Write the counts for people.

    >>> row_counts_text(5, 3, {"outside the selected offsets": 2})
    '5 records read, 3 written, 2 left out (outside the selected offsets)'
    >>> row_counts_text(5, 5, {})
    '5 records read, 5 written'
    """
    reasons = [f"{number:,} left out ({reason})" for reason, number in sorted(left_out.items()) if number]
    return ", ".join([f"{read:,} records read", f"{written:,} written", *reasons])
