"""Describe what a file that is not a part of a log contains, and which commands read it."""

from __future__ import annotations

import re
from typing import Final

from kafkaframes.storage.files.names import FileName

HEAD_BYTES: Final = 4096  # number of first bytes from which a file is recognized
_CAPTURE_DESCRIPTION: Final = "a capture: `kafkaframes report` and `kafkaframes audit` read captures"
_ARCHIVE_DESCRIPTION: Final = "{}: unpack it first"
_TAR_MARK_POSITION: Final = 257  # position of the text "ustar" in the header of an archive
_TAR_NAME: Final = re.compile(r"\.tar\.\w+$|\.t(gz|zst|xz|bz2)$", re.IGNORECASE)
_FILE_SIGNATURES: Final = (
    (b"\x0a\x0d\x0d\x0a", _CAPTURE_DESCRIPTION),  # pcapng
    (b"\xd4\xc3\xb2\xa1", _CAPTURE_DESCRIPTION),  # pcap, little-endian and big-endian, in micro- and nanoseconds
    (b"\xa1\xb2\xc3\xd4", _CAPTURE_DESCRIPTION),
    (b"\x4d\x3c\xb2\xa1", _CAPTURE_DESCRIPTION),
    (b"\xa1\xb2\x3c\x4d", _CAPTURE_DESCRIPTION),
    (b"PAR1", "a Parquet file: `kafkaframes restore` and `kafkaframes produce --format parquet` read it"),
    (b"ARROW1", "an Arrow file: `kafkaframes produce --format arrow` reads Arrow streams"),
    (b"\xff\xff\xff\xff", "an Arrow stream: `kafkaframes produce --format arrow` reads it"),
    (b"PK\x03\x04", _ARCHIVE_DESCRIPTION.format("a zip archive")),
    (b"\x1f\x8b", "a gzip file: decompress it first, except captures, whose name has to contain .pcap"),
    (
        b"\x28\xb5\x2f\xfd",
        "a zstd file: decompress it first, except captures, whose name has to contain .pcap",
    ),
    (
        b"\x04\x22\x4d\x18",
        "an lz4 file: decompress it first, except captures, whose name has to contain .pcap",
    ),
    (b"\xfd7zXZ\x00", "an xz file: decompress it first"),
    (b"BZh", "a bzip2 file: decompress it first"),
)
_REQUEST_LOG_MARK: Final = b"Completed request:"
_CAPTURE_SUFFIX: Final = ".pcap"
_MAGIC_POSITION: Final = 16  # position of the format byte in a batch or message
_MIN_STATED_BATCH_BYTES: Final = 14  # smallest valid value of the size field of a batch or message


def describe_content(head: bytes, name: str) -> str:
    """Return a description of a file, with the commands that read it, as the end of an error message.

    Args:
        head: first bytes of the file.
        name: name of the file.

    >>> describe_content(b"PAR1...", "a.log").partition(":")[0]
    'a Parquet file'
    """
    if _CAPTURE_SUFFIX in name.lower():
        return _CAPTURE_DESCRIPTION
    if head.startswith(b"ustar", _TAR_MARK_POSITION):
        return _ARCHIVE_DESCRIPTION.format("a tar archive")
    for magic, description in _FILE_SIGNATURES:
        if head.startswith(magic):
            return _ARCHIVE_DESCRIPTION.format("a compressed tar archive") if _TAR_NAME.search(name) else description
    if not head:
        return "an empty file"
    if _REQUEST_LOG_MARK in head:
        return "a request log of a broker: `kafkaframes audit` and `kafkaframes report` read it"
    if begins_with_batch(head):
        return "a segment under another name; the name has to be the first offset, such as 00000000000000000000.log"
    if head.lstrip()[:1] in (b"{", b"[") and _is_text(head):
        return "JSON text: `kafkaframes produce --format jsonl` reads records as JSON lines"
    if _is_text(head):
        return "text: `kafkaframes produce` reads lines"
    return f"a file that begins with {head[:8].hex(' ')}"


def begins_with_batch(head: bytes) -> bool:
    """Return whether the first bytes of a file can be the header of a record batch or message."""
    is_archive = head.startswith(b"ustar", _TAR_MARK_POSITION)
    if len(head) <= _MAGIC_POSITION or is_archive or any(head.startswith(magic) for magic, _ in _FILE_SIGNATURES):
        return False
    size, magic = int.from_bytes(head[8:12], "big", signed=True), head[_MAGIC_POSITION]
    return head[0] < 0x80 and size >= _MIN_STATED_BATCH_BYTES and magic <= 2


def is_segment_name(name: str) -> bool:
    """Return whether a file is named as a segment or KRaft snapshot."""
    parsed = FileName.parse(name)
    return parsed is not None and parsed.kind in ("log", "checkpoint")


def _is_text(head: bytes) -> bool:
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:  # otherwise, the head ends inside a character
            return False
        text = head[: error.start].decode()
    return all(character.isprintable() or character.isspace() for character in text)
