"""The batches of one append before they are in the log: found, checked, and what is answered about them.

``analyze`` is what a follower checks (UnifiedLog.analyzeAndValidateRecords); a leader's records go through
``log.append.validate_and_assign`` as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafkaframes.append.headers import ensure_valid
from kafkaframes.append.settings import LARGEST_INT64
from kafkaframes.errors import AppendRefusedError
from kafkaframes.files.headers import BatchHeader, parse_header
from kafkaframes.log.transactions import markers_among
from kafkaframes.partition.producers import Seen
from kafkaframes.partition.settings import LogSettings
from kafkaframes.records.batch import read_values
from kafkaframes.records.layout import BATCH_V2, BYTES_TO_MAGIC, CODECS, MIN_SIZE, OVERHEAD_BYTES
from kafkaframes.records.scan import FILE, as_array, scan_all
from kafkaframes.wire.checksum import crc32c

NO_OFFSET = -1
_OFFSET_BYTES = 8
_CRC_FROM = BATCH_V2.end_of("crc")


class LogAppendInfo(NamedTuple):
    """What became of an append; what a producer is answered with (LogAppendInfo).

    Attributes:
        first_offset, last_offset: of the records; of a duplicate, those of the batch that is in the log. A follower of
            format 0 or 1 knows the last offset of the first batch only, and that is given.
        last_leader_epoch: of the last batch, -1 in formats 0 and 1.
        max_timestamp: the largest, milliseconds since 1970; -1 for none.
        append_time_ms: the time that the log gave the records; -1 where the producer's stays.
        log_start_offset, log_end_offset: of the log afterwards.
        valid_bytes: of whole batches that came in; what followed them was cut off.
        is_duplicate: nothing was written: the last five batches of its producer have it.
        rolled: a new segment was begun for it.
        recompressed_bytes: bytes, uncompressed, that went through a compressor.
    """

    first_offset: int
    last_offset: int
    last_leader_epoch: int
    max_timestamp: int
    append_time_ms: int
    log_start_offset: int
    log_end_offset: int
    valid_bytes: int
    is_duplicate: bool = False
    rolled: bool = False
    recompressed_bytes: int = 0

    @property
    def record_count(self) -> int:
        """How many offsets the records take."""
        return self.last_offset - self.first_offset + 1


def headers_of(data: bytes) -> list[BatchHeader]:
    """Return the headers of batches that are known to be whole.

    One batch, the usual append of format 2, is parsed in place; more go through the scan's kernel.
    """
    size = int.from_bytes(data[_OFFSET_BYTES:OVERHEAD_BYTES], "big", signed=True)
    if size + OVERHEAD_BYTES == len(data) and size >= MIN_SIZE:
        return [parse_header(data, at=0, position=0, size=len(data))]
    return [BatchHeader(*column) for column in scan_all(as_array(data)).table.T.tolist()]


def check_client_offset(data: bytes) -> None:
    """Refuse a batch of format 2 that a client has given an offset.

    Raises:
        AppendRefusedError: as Kafka refuses it.
    """
    if len(data) >= BATCH_V2.size and data[BYTES_TO_MAGIC - 1] == 2 and any(data[:_OFFSET_BYTES]):
        offset = int.from_bytes(data[:_OFFSET_BYTES], "big", signed=True)
        raise AppendRefusedError("InvalidRecordException", f"a client's batch has base offset {offset}, not 0")


def analyze(data: bytes, *, log_end_offset: int, leader_epoch: int | None) -> tuple[bytes, list[BatchHeader]]:
    """Check batches that come with their offsets, and return those to append.

    Args:
        data: from a leader; a part of a batch at the end is cut off.
        log_end_offset: below which nothing may lie.
        leader_epoch: the one that the follower was told of; batches from the first of a later epoch on are left for a
            later fetch.

    Raises:
        AppendRefusedError: damage, offsets that do not increase, or below the log's end.
    """
    headers = _ordinary(data)
    valid = len(data)
    if not headers:
        batches = scan_all(as_array(data))
        valid = ensure_valid(as_array(data), batches)
        headers = [BatchHeader(*column) for column in batches.table.T.tolist()]
    if leader_epoch is not None:
        later = next((one for one in headers if one.leader_epoch > leader_epoch), None)
        if later is not None:
            valid, headers = later.position, [one for one in headers if one.position < later.position]
    _check_increasing(headers)
    if headers and first_or_last_offset(headers[0]) < log_end_offset:
        reason = f"offset {first_or_last_offset(headers[0])} lies below the log's end {log_end_offset}"
        raise AppendRefusedError("UnexpectedAppendOffsetException", reason)
    return data if valid == len(data) else data[:valid], headers


def analyze_kept(data: bytes, *, log_end_offset: int, settings: LogSettings) -> tuple[bytes, list[BatchHeader]]:
    """Check batches that a mirror sends with the offsets that they have, by their headers and CRCs alone.

    They may be of any format: a log that went from format to format has several, and so has its copy.

    Raises:
        AppendRefusedError: damage, a batch that is too large, or offsets that do not increase or lie below the log's
            end.
    """
    batches = scan_all(as_array(data))
    data = data[: ensure_valid(as_array(data), batches)]
    headers = [BatchHeader(*column) for column in batches.table.T.tolist()]
    for header in headers:
        if header.size > settings.max_message_bytes:
            reason = f"a batch of {header.size} bytes, {settings.max_message_bytes} are allowed"
            raise AppendRefusedError("RecordTooLargeException", reason)
    _check_increasing(headers)
    if headers and first_or_last_offset(headers[0]) < log_end_offset:
        reason = f"offset {first_or_last_offset(headers[0])} lies below the log's end {log_end_offset}"
        raise AppendRefusedError("InvalidRecordException", reason)
    return data, headers


def with_leader_epochs(data: bytes, headers: Sequence[BatchHeader], latest: int) -> tuple[bytes, list[BatchHeader]]:
    """Return a mirror's batches with leader epochs that can follow ``latest``, which lie outside the CRC.

    What has none, or none that is older, keeps its own: the copy answers OffsetsForLeaderEpoch as the original does.
    """
    place = BATCH_V2.place_of("leader_epoch")
    out, found = bytearray(), list[BatchHeader]()
    for header in headers:
        is_old = header.magic >= 2 and 0 <= header.leader_epoch < latest
        if is_old:
            out = out or bytearray(data)
            at = header.position + place
            out[at : at + 4] = latest.to_bytes(4, "big", signed=True)
        found.append(header._replace(leader_epoch=latest) if is_old else header)
        latest = max(latest, header.leader_epoch)
    return bytes(out) if out else data, found


def _ordinary(data: bytes) -> list[BatchHeader]:
    """Return the header of one intact batch of format 2, the usual case, without the scan's arrays; else nothing."""
    if len(data) < BATCH_V2.size or data[BYTES_TO_MAGIC - 1] != 2:
        return []
    size = int.from_bytes(data[_OFFSET_BYTES:OVERHEAD_BYTES], "big", signed=True)
    if size + OVERHEAD_BYTES != len(data):
        return []
    header = parse_header(data, at=0, position=0, size=len(data))
    is_intact = header.codec < len(CODECS) and crc32c(memoryview(data)[_CRC_FROM:]) == header.crc
    return [header] if is_intact else []


def _check_increasing(headers: Sequence[BatchHeader]) -> None:
    last = NO_OFFSET
    for header in headers:
        if not last < header.base_offset <= header.last_offset < LARGEST_INT64:
            offsets = f"offsets {header.base_offset} to {header.last_offset} follow {last}"
            raise AppendRefusedError("OffsetsOutOfOrderException", offsets)
        last = header.last_offset


def first_or_last_offset(header: BatchHeader) -> int:
    """Return a batch's first offset; in formats 0 and 1 its last, the only one in the header."""
    return header.base_offset if header.magic >= 2 else header.last_offset


def seen_of(data: bytes, headers: Sequence[BatchHeader]) -> Iterator[Seen]:
    """Yield the batches that have a producer, with the markers of control batches."""
    for header in headers:
        if header.magic >= 2 and header.has_producer:
            raw = data[header.position : header.end] if header.is_control else b""
            records = [record for batch in read_values(raw, rules=FILE) for record in batch.records] if raw else []
            yield header, tuple(markers_among(records, header))
