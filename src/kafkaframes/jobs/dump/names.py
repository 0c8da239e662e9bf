"""Names and limits that commands show before they read anything: kinds of files, styles, sizes, places to search."""

from __future__ import annotations

from typing import Final

RECORDS: Final = ("log", "checkpoint")
INDEXES: Final = ("index", "timeindex")
STATES: Final = ("snapshot", "txnindex")
KINDS: Final = (*RECORDS, *INDEXES, *STATES)
STYLE_NAMES: Final = ("4.3", "3.9", "2.8")  # the Kafka releases since which the output has its present form
LATEST: Final = "4.3"
MAX_MESSAGE_SIZE: Final = 5 * 1024 * 1024  # bytes of the log that an offset index's entry may point into
VALUE_LIMIT: Final = 200  # bytes; what is longer is shown as its digest
KEY, VALUE, HEADERS = "key", "value", "headers"
SEARCHED: Final = (KEY, VALUE, HEADERS)
