"""What the headers of the records to append say: whether the batches are whole, and which codec they have."""

from __future__ import annotations

import numpy as np

from kafkaframes.errors import AppendRefusedError
from kafkaframes.records.codecs import Codec
from kafkaframes.records.layout import BATCH_V2, MIN_SIZE
from kafkaframes.records.reasons import END_REASONS, HUGE_SIZE
from kafkaframes.records.scan import Batches, Bytes, End, check_crcs, scan_all


def valid_batches(data: Bytes) -> tuple[Batches, int]:
    """Scan batches, and check the size, CRC and codec of each as the broker does before all else.

    Returns:
        The headers of the whole batches, and how many bytes these have.

    Raises:
        AppendRefusedError: for the first batch that is damaged, or because there is none.
    """
    batches = scan_all(data)
    magics, sizes = batches.column("magic"), batches.column("size")
    short = (magics >= 2) & (sizes < BATCH_V2.size)
    wrong = check_crcs(data, batches) == 0
    unknown = batches.codecs >= len(Codec)
    bad = np.flatnonzero(short | wrong | unknown)
    if len(bad):
        row = int(bad[0])
        if short[row] or wrong[row]:
            reason = "is shorter than its header" if short[row] else "has a CRC that is not that of its bytes"
            raise AppendRefusedError("CorruptRecordException", f"batch {row} {reason}")
        raise AppendRefusedError("IllegalArgumentException", f"batch {row} has an unknown codec")
    refuse_corrupt(batches.end)
    if batches.end.position == 0:
        error = AppendRefusedError("CorruptRecordException", "there is no whole batch")
        error.valid_bytes = 0
        raise error
    return batches, batches.end.position


def refuse_corrupt(end: End) -> None:
    """Refuse what Kafka's iterator ends with an error at.

    Raises:
        AppendRefusedError: with the exception of Kafka; of a size near 2^31 it computes a negative limit of a buffer.
    """
    if end.corrupt:
        exception = "IllegalArgumentException" if end.status == HUGE_SIZE else "CorruptRecordException"
        raise AppendRefusedError(exception, f"{END_REASONS[end.status]} (at byte {end.position}, {MIN_SIZE=})")


def source_codec(batches: Batches) -> Codec:
    """Return the codec of the last batch that has one."""
    numbers = batches.codecs
    compressed = numbers[numbers != 0]
    return Codec(int(compressed[-1])) if len(compressed) else Codec.NONE
