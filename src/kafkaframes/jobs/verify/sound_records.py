"""Check whether the records of batches are sound, in columns, without a Python object for each record.

Sound: the records can be read to their end, and of a compressed message of format 0 or 1 every inner CRC is right (the
outer CRC does not replace them: brokers keep them as producers wrote them).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kafkaframes.records import decode, scan
from kafkaframes.records.chunks import Chunk, parts_of
from kafkaframes.records.decoded import Decoded
from kafkaframes.records.scan import Batches, Bytes, Ints

_PART_BYTES = 2 << 20  # decompressed at once
_RATIO = 8.0  # how much larger than in the log they are taken to be
UNKNOWN = -(2**63)
_MOST_REPORTED = 100  # wrong inner CRCs of one batch


class Judged(NamedTuple):
    """What was found in batches.

    Attributes:
        rows: how many records of each can be read.
        first_offsets: of the batches; ``UNKNOWN`` of a compressed message of format 0 or 1 without a readable record.
        problems: why a batch has fewer readable records than it declares, by its number.
        wrong: the offsets of inner messages whose CRC is wrong, the first of each batch, by its number.
    """

    rows: Ints
    first_offsets: Ints
    problems: dict[int, str]
    wrong: dict[int, list[int]]


def judge(data: bytes | Bytes, batches: Batches) -> Judged:
    """Read the records of batches, in columns.

    Args:
        data: the bytes that ``batches`` was scanned from, each batch whole.
        batches: any; a message of format 0 or 1 that is not compressed has no CRC inside.
    """
    judged = Judged(np.zeros(len(batches), np.int64), batches.column("base_offset").copy(), {}, {})
    first = 0
    for chunk in parts_of(Chunk(0, scan.as_array(data), batches), _RATIO, _PART_BYTES):
        for part in decode.in_turn(chunk.data, chunk.batches):
            _judge(part, first + part.first, judged)
        first += len(chunk.batches)
    return judged


def _judge(part: Decoded, first: int, judged: Judged) -> None:
    batches, sections, index = part.batches, part.sections, part.index
    judged.rows[first : first + len(batches)] = index.rows
    judged.problems.update({first + row: problem.reason for row, problem in part.problems.items()})
    wrappers = batches.is_wrapper
    judged.first_offsets[first + np.flatnonzero(wrappers)] = UNKNOWN
    filled = np.flatnonzero(wrappers & (index.rows > 0))
    judged.first_offsets[first + filled] = index.offsets[part.starts[filled]]
    for row in filled.tolist():
        chosen = slice(int(part.starts[row]), int(part.starts[row + 1]))
        right = scan.check_message_crcs(sections.buf, index.headers_at[chosen])
        wrong = index.offsets[chosen][right == 0][:_MOST_REPORTED].tolist()
        if wrong:
            judged.wrong[first + row] = wrong
