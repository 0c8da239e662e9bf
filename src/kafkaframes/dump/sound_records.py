"""Which batches' records are sound beyond doubt, in columns: the others are read one by one, with words for the damage.

Sound: the records can be read to their end, and of a compressed message of format 0 or 1 every inner CRC is right (the
outer CRC does not replace them: brokers keep them as producers wrote them).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kafkaframes.records import decode, scan
from kafkaframes.records.chunks import Chunk, pieces
from kafkaframes.records.decode import Index, Sections
from kafkaframes.records.layout import CODEC_MASK
from kafkaframes.records.scan import Batches, Bytes, Ints

_PIECE_BYTES = 2 << 20  # decompressed at once
_RATIO = 8.0  # how much larger than in the log they are taken to be
UNSURE = -1


def count_sound(data: bytes | Bytes, batches: Batches) -> Ints:
    """Return how many records each batch has, or ``UNSURE``: it is to be read one by one.

    Args:
        data: the bytes that ``batches`` was scanned from, each batch whole.
        batches: any; a message of format 0 or 1 that is not compressed has no CRC inside.
    """
    counts: list[Ints] = [np.empty(0, np.int64)]
    for piece in pieces(Chunk(0, scan.as_array(data), batches), _RATIO, _PIECE_BYTES):
        sections = decode.open_sections(piece.data, piece.batches)
        index = decode.index_records(piece.batches, sections)
        counts.append(np.where(_is_sound(piece.batches, sections, index), index.rows, UNSURE))
    return np.concatenate(counts)


def _is_sound(batches: Batches, sections: Sections, index: Index) -> npt.NDArray[np.bool_]:
    sound: npt.NDArray[np.bool_] = index.statuses == 0
    sound[list(sections.problems)] = False
    wrappers = (batches.column("magic") < 2) & (batches.column("attributes") & CODEC_MASK != 0)
    owners = np.repeat(np.arange(len(batches)), index.rows)
    inner = np.flatnonzero(wrappers[owners])
    right = scan.check_message_crcs(sections.buf, index.headers_at[inner])
    sound[owners[inner[right == 0]]] = False
    return sound
