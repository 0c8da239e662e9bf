"""Report which data of a capture were not read, and why. All commands, tables and library calls use this coverage
report.

A ``Coverage`` is filled while captures and request logs are read. Each entry has a kind. The kinds in
``HARMLESS_KINDS`` cannot hide a Kafka call: ARP, UDP, or a connection that began before the capture. Data of every
other kind may hide a Kafka call, so results from this capture are then incomplete.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from kafkaframes.errors import DecodeError
from kafkaframes.errors.words import count_text

DAMAGED, LOST, CUT, UNSUPPORTED, ENCRYPTED, UNKNOWN = "damaged", "lost", "cut", "unsupported", "encrypted", "unknown"
BOUNDARY, OTHER = "boundary", "other"
#: Kind of unread data -> description.
ENTRY_KINDS: Final = {
    DAMAGED: "a file, a packet header, a line, a message or a set of records cannot be read",
    LOST: "packets of a connection are missing",
    CUT: "packets are cut by the snap length",
    UNSUPPORTED: "a link type, a tunnel, another protocol around IP, or an API version that is not supported",
    ENCRYPTED: "TLS, IPsec, MACsec",
    UNKNOWN: "a connection whose protocol is not recognised",
    BOUNDARY: "the capture begins or ends inside a connection; harmless",
    OTHER: "another protocol: ARP, LLDP, UDP, HTTP; harmless",
}
HARMLESS_KINDS: Final = frozenset({BOUNDARY, OTHER})


@dataclass(frozen=True, slots=True)
class UnreadData:
    """An amount of unread data in one file, all of one kind and unread for one reason.

    Attributes:
        kind: a key of ``ENTRY_KINDS``.
        reason: the reason. The reason contains no numbers, so that entries with equal reasons can be added up.
        file: path of the file.
        position: position of the first unread byte in the decompressed file; None if unknown.
        size_bytes: number of bytes; -1 for the rest of the file; None if unknown.
        packets: number of packets; None if the data are bytes of a stream or of a file.
        connections: number of connections; 0 if unknown.
        lines: number of request log lines.
        number: number of the first packet, counted from 1; None if the data are not packets.
        time_ns: timestamp of the first packet, in nanoseconds since 1970; None if the data are not packets.
    """

    kind: str
    reason: str
    file: str
    position: int | None = None
    size_bytes: int | None = None
    packets: int | None = None
    connections: int = 0
    lines: int = 0
    number: int | None = None
    time_ns: int | None = None

    @property
    def is_harmless(self) -> bool:
        """Whether the data cannot contain a Kafka call."""
        return self.kind in HARMLESS_KINDS

    @property
    def text(self) -> str:
        """The amount and the reason, as text."""
        if self.lines:
            return f"{count_text(self.lines, 'line')}: {self.reason}"
        if self.connections and self.packets is None:
            return f"{count_text(self.connections, 'connection')}: {self.reason}"
        if self.packets is not None:
            return f"{count_text(self.packets, 'packet')}: {self.reason}"
        if self.size_bytes is not None and self.size_bytes > 0:
            return f"{count_text(self.size_bytes, 'byte')}: {self.reason}"
        return self.reason

    def as_exception(self) -> DecodeError:
        """Return the entry as an error that names the file."""
        return DecodeError(self.text, file=self.file, position=self.position)

    def __str__(self) -> str:
        return str(self.as_exception())


def merge_files(entries: Iterable[UnreadData]) -> list[UnreadData]:
    """Add up the entries of all files that have the same kind and reason. The sum has the file of the first entry."""
    merged: dict[tuple[str, str], UnreadData] = {}
    for entry in entries:
        total = merged.get((entry.kind, entry.reason))
        merged[entry.kind, entry.reason] = entry if total is None else _add_entries(total, entry)
    return list(merged.values())


_MAX_PRINTED_REASONS: Final = 6


def summarize_entries(entries: Iterable[UnreadData]) -> str:
    """Return the amounts and reasons from the first entries in one line."""
    merged = merge_files(entries)
    texts = [entry.text for entry in merged[:_MAX_PRINTED_REASONS]]
    omitted = len(merged) - len(texts)
    return "; ".join([*texts, *([f"and {count_text(omitted, 'more reason')}"] if omitted else [])])


def entry_to_json(entry: UnreadData) -> dict[str, object]:
    """Return an entry as a JSON object."""
    return {
        "kind": entry.kind,
        "reason": entry.reason,
        "file": entry.file,
        "position": entry.position,
        "sizeBytes": entry.size_bytes,
        "packets": entry.packets,
        "connections": entry.connections or None,
        "lines": entry.lines or None,
    }


class Coverage:
    """A report of the data that one read of captures and request logs could not read."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str, str], UnreadData] = {}
        self._gaps: dict[tuple[str, str, str], UnreadData] = {}

    def add(self, data: UnreadData) -> None:
        """Add unread data. Data with the same file, kind and reason become one entry."""
        _add_to_entry(self._entries, data)

    def update(self, entries: Iterable[UnreadData]) -> None:
        """Add several entries."""
        for entry in entries:
            self.add(entry)

    def add_gaps(self, gaps: Iterable[UnreadData]) -> None:
        """Add gaps in TCP streams."""
        for gap in gaps:
            _add_to_entry(self._gaps, gap)

    @property
    def entries(self) -> list[UnreadData]:
        """All entries."""
        return [*self._entries.values(), *self._gaps.values()]

    @property
    def entries_without_gaps(self) -> list[UnreadData]:
        """All entries except gaps in TCP streams; harmless entries are last."""
        return sorted(self._entries.values(), key=lambda entry: entry.is_harmless)

    @property
    def unread(self) -> list[UnreadData]:
        """Entries that may hide Kafka calls."""
        return [entry for entry in self.entries if not entry.is_harmless]

    @property
    def harmless(self) -> list[UnreadData]:
        """Entries that cannot hide a Kafka call."""
        return [entry for entry in self.entries if entry.is_harmless]


def _add_to_entry(entries: dict[tuple[str, str, str], UnreadData], data: UnreadData) -> None:
    key = data.file, data.kind, data.reason
    total = entries.get(key)
    entries[key] = data if total is None else _add_entries(total, data)


def _add_entries(entry: UnreadData, other: UnreadData) -> UnreadData:
    """Return an entry with the summed amounts of two entries."""
    size = None
    if entry.size_bytes is not None and other.size_bytes is not None:
        size = -1 if min(entry.size_bytes, other.size_bytes) < 0 else entry.size_bytes + other.size_bytes
    packets = None if entry.packets is None or other.packets is None else entry.packets + other.packets
    connections, lines = entry.connections + other.connections, entry.lines + other.lines
    return replace(entry, size_bytes=size, packets=packets, connections=connections, lines=lines)
