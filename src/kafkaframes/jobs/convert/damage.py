"""Find the batches that cannot be read completely, in decoded data of a segment."""

from __future__ import annotations

import numpy as np

from kafkaframes.records.decoded import DecodedBatches
from kafkaframes.records.scan import check_message_crcs


def find_damaged_batches(window: DecodedBatches) -> dict[int, str]:
    """Return the reason for each batch that cannot be read completely, by batch number."""
    result = {batch: problem.reason for batch, problem in window.problems.items()}
    result |= dict.fromkeys(np.flatnonzero(~window.crc_ok).tolist(), "the CRC does not match the batch's bytes")
    for batch in _find_wrappers_with_wrong_crc(window) - result.keys():
        result[batch] = "the CRC of a message inside a compressed message does not match its bytes"
    return result


def _find_wrappers_with_wrong_crc(window: DecodedBatches) -> set[int]:
    """Return the wrappers that contain a message with a wrong CRC, because rewriting them would hide the damage."""
    inner_messages = np.flatnonzero(window.batches.is_wrapper[window.owners])
    is_crc_right = check_message_crcs(window.sections.buf, window.index.headers_at[inner_messages])
    return set(window.owners[inner_messages[is_crc_right == 0]].tolist())
