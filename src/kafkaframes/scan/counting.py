"""Count records by the headers of their batches, where these say it exactly: nothing is decompressed. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafkaframes.records.scan import Batches, Bytes, Flags, check_crcs
from kafkaframes.scan.where import Where


@dataclass(frozen=True, slots=True)
class Counting:
    """What is counted of batches.

    Attributes:
        first_offset, end_offset: of records.
        where: the range of time.
        verify_crc: whether a batch counts by its header only if its checksum is right.
        control_records: whether these are counted.
    """

    first_offset: int
    end_offset: int
    where: Where
    verify_crc: bool = True
    control_records: bool = False

    def records(self, data: Bytes, batches: Batches, left_out: Flags | None = None) -> int | None:
        """Return how many records batches have; None where the headers do not say it.

        They do not say it of compressed sets of formats 0 and 1, of batches that lie across a bound, of those with a
        wrong checksum, or with a count that their offsets have no numbers for.

        Args:
            data: the bytes of the batches.
            batches: their headers.
            left_out: batches that are not counted (aborted transactions).
        """
        firsts, lasts, counts = (batches.column(name) for name in ("base_offset", "last_offset", "count"))
        is_v2 = batches.is_v2
        firsts = np.where(is_v2, firsts, np.where(batches.codecs == 0, lasts, np.iinfo(np.int64).min))  # or not known
        counts = np.where(is_v2, counts, 1)
        counted = (lasts >= self.first_offset) & (firsts < self.end_offset)
        if not self.control_records:
            counted &= ~batches.is_control
        if left_out is not None:
            counted &= ~left_out
        counted &= ~self.where.batches_without_rows(batches)
        sure = (is_v2 | (batches.codecs == 0)) & (counts >= 0) & (counts - 1 <= lasts - firsts)
        sure &= (firsts >= self.first_offset) & (lasts < self.end_offset) & self.where.batches_of_rows(batches)
        if not sure[counted].all():
            return None
        if self.verify_crc and not check_crcs(data, batches.chosen(counted)).all():
            return None
        return int(counts[counted].sum())
