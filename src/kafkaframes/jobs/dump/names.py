"""Define names and limits that the help of commands needs: kinds of files, styles, sizes, parts of a record."""

from __future__ import annotations

from typing import Final

RECORD_FILES: Final = ("log", "checkpoint")  # kinds of files with records
INDEX_FILES: Final = ("index", "timeindex")  # kinds of index files
STATE_FILES: Final = ("snapshot", "txnindex")  # kinds of files with producer or transaction state
FILE_KINDS: Final = (*RECORD_FILES, *INDEX_FILES, *STATE_FILES)
STYLE_NAMES: Final = ("4.3", "3.9", "2.8")  # Kafka releases with different output
NEWEST_STYLE: Final = "4.3"
MAX_CHECKED_BATCH_BYTES: Final = 5 * 1024 * 1024  # largest batch that is read to check an offset index entry, in bytes
MAX_PRINTED_VALUE_BYTES: Final = 200  # largest value that is printed, in bytes; larger values are printed as a digest
KEY, VALUE, HEADERS = "key", "value", "headers"
SEARCHED_FIELDS: Final = (KEY, VALUE, HEADERS)
