"""Check the records of batches by columns, without a Python object for each record.

Records are sound if they can be parsed to the end and, for compressed messages of formats 0 and 1, every inner CRC is
right. The outer CRC does not replace inner CRCs, because brokers store those that producers sent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kafkaframes.records import decode, scan
from kafkaframes.records.decoded import DecodedBatches
from kafkaframes.records.scan import BatchHeaders, Bytes, Chunk, Ints, split_chunk

_MAX_PART_BYTES = 2 << 20  # bytes that are decompressed at once
_ASSUMED_COMPRESSION_RATIO = 8.0  # assumed ratio of decompressed to compressed size
UNKNOWN_TIMESTAMP = -(2**63)
_MAX_REPORTED_CRC_ERRORS = 100  # largest number of inner CRC errors that are reported for a batch


class RecordCheckResult(NamedTuple):
    """The results of checking batches.

    Attributes:
        rows: number of readable records of each batch.
        first_offsets: first offset of each batch; ``UNKNOWN_TIMESTAMP`` for a compressed message of format 0 or 1
            without readable records.
        problems: reason why a batch has fewer readable records than its header declares, by batch number.
        wrong_messages: first offsets of inner messages with a wrong CRC, by batch number.
    """

    rows: Ints
    first_offsets: Ints
    problems: dict[int, str]
    wrong_messages: dict[int, list[int]]


def check_records(data: bytes | Bytes, batches: BatchHeaders) -> RecordCheckResult:
    """Parse the records of whole batches by columns.

    An uncompressed message of format 0 or 1 has no inner CRC.
    """
    judgement = RecordCheckResult(np.zeros(len(batches), np.int64), batches.column("base_offset").copy(), {}, {})
    first = 0
    for chunk in split_chunk(Chunk(0, scan.as_array(data), batches), _ASSUMED_COMPRESSION_RATIO, _MAX_PART_BYTES):
        for part in decode.decode_steps(chunk.data, chunk.batches):
            _check_batch_records(part, first + part.first, judgement)
        first += len(chunk.batches)
    return judgement


def _check_batch_records(part: DecodedBatches, first: int, judgement: RecordCheckResult) -> None:
    """Add the results for decoded batches. ``first`` is the number of the first one."""
    batches, sections, index = part.batches, part.sections, part.index
    judgement.rows[first : first + len(batches)] = index.rows
    judgement.problems.update({first + row: problem.reason for row, problem in part.problems.items()})
    wrappers = batches.is_wrapper
    judgement.first_offsets[first + np.flatnonzero(wrappers)] = UNKNOWN_TIMESTAMP
    wrapper_rows = np.flatnonzero(wrappers & (index.rows > 0))
    judgement.first_offsets[first + wrapper_rows] = index.offsets[part.starts[wrapper_rows]]
    for row in wrapper_rows.tolist():
        record_range = slice(int(part.starts[row]), int(part.starts[row + 1]))
        is_valid = scan.check_message_crcs(sections.buf, index.headers_at[record_range])
        wrong_offsets = index.offsets[record_range][is_valid == 0][:_MAX_REPORTED_CRC_ERRORS].tolist()
        if wrong_offsets:
            judgement.wrong_messages[first + row] = wrong_offsets
