"""What a capture holds that was not read, and why: the same account for every command, table and library call.

A ``Coverage`` is filled while captures and request logs are read, whatever they are read for. Each entry has a kind.
The kinds in ``HARMLESS`` cannot hide a Kafka call (ARP, UDP, a connection that began before the capture); all other
kinds can, so a result that rests on the capture is incomplete.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from kafkaframes.errors import DecodeError

DAMAGED, LOST, CUT, UNSUPPORTED, ENCRYPTED, UNKNOWN = "damaged", "lost", "cut", "unsupported", "encrypted", "unknown"
BOUNDARY, OTHER = "boundary", "other"
#: The kinds of entries, and what each means.
KINDS: Final = {
    DAMAGED: "a file, a packet header or a line cannot be read",
    LOST: "packets of a connection are missing",
    CUT: "packets are cut by the snap length",
    UNSUPPORTED: "a link type, a tunnel or another protocol around IP that is not read",
    ENCRYPTED: "TLS, IPsec, MACsec",
    UNKNOWN: "a connection whose protocol is not recognised",
    BOUNDARY: "the capture begins or ends inside a connection; harmless",
    OTHER: "another protocol: ARP, LLDP, UDP, HTTP; harmless",
}
HARMLESS: Final = frozenset({BOUNDARY, OTHER})


@dataclass(frozen=True, slots=True)
class UnreadData:
    """Data that were not read, for one reason.

    Attributes:
        kind: a key of ``KINDS``.
        reason: the reason, without numbers, so that equal reasons can be added up.
        file: the path of the file.
        position: of the first byte in the (decompressed) file; None where that is not known.
        size_bytes: the number of bytes; -1 for all that follow; None where that is not known.
        packets: the number of packets; None for bytes of a stream or a file.
        connections: the number of connections; 0 where they are not known.
        lines: the number of lines of a request log.
        number: the number of the first packet, from 1; None where there is none.
        time_ns: its time.
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
        """Whether no Kafka call can be among the data."""
        return self.kind in HARMLESS

    @property
    def text(self) -> str:
        """The amount and the reason."""
        if self.lines:
            return f"{_counted(self.lines, 'line')}: {self.reason}"
        if self.connections and self.packets is None:
            return f"{_counted(self.connections, 'connection')}: {self.reason}"
        if self.packets is not None:
            return f"{_counted(self.packets, 'packet')}: {self.reason}"
        if self.size_bytes is not None and self.size_bytes > 0:
            return f"{_counted(self.size_bytes, 'byte')}: {self.reason}"
        return self.reason

    def as_exception(self) -> DecodeError:
        """Return an error that names the file."""
        return DecodeError(self.text, file=self.file, position=self.position)

    def __str__(self) -> str:
        return str(self.as_exception())


def merge_files(entries: Iterable[UnreadData]) -> list[UnreadData]:
    """Return entries added up over files, by kind and reason; the file is that of the first."""
    merged: dict[tuple[str, str], UnreadData] = {}
    for entry in entries:
        before = merged.get((entry.kind, entry.reason))
        merged[entry.kind, entry.reason] = entry if before is None else _sum(before, entry)
    return list(merged.values())


_MAX_REASONS: Final = 6


def summary(entries: Iterable[UnreadData]) -> str:
    """Return amounts and reasons in one line, the first few of them."""
    merged = merge_files(entries)
    texts = [entry.text for entry in merged[:_MAX_REASONS]]
    more = len(merged) - len(texts)
    return "; ".join([*texts, *([f"and {_counted(more, 'more reason')}"] if more else [])])


def entry_json(entry: UnreadData) -> dict[str, object]:
    """Return an entry as JSON."""
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


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


class Coverage:
    """The account of one read of captures and request logs."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str, str], UnreadData] = {}
        self._gaps: dict[tuple[str, str, str], UnreadData] = {}

    def add(self, data: UnreadData) -> None:
        """Add data; those of the same file, kind and reason become one entry."""
        _add(self._entries, data)

    def update(self, entries: Iterable[UnreadData]) -> None:
        """Add several."""
        for entry in entries:
            self.add(entry)

    def add_gaps(self, gaps: Iterable[UnreadData]) -> None:
        """Add gaps of streams."""
        for gap in gaps:
            _add(self._gaps, gap)

    @property
    def entries(self) -> list[UnreadData]:
        """Everything that was not read."""
        return [*self._entries.values(), *self._gaps.values()]

    @property
    def beside_gaps(self) -> list[UnreadData]:
        """Everything but the gaps of streams, those that may hide calls first."""
        return sorted(self._entries.values(), key=lambda entry: entry.is_harmless)

    @property
    def unread(self) -> list[UnreadData]:
        """What may hide Kafka calls."""
        return [entry for entry in self.entries if not entry.is_harmless]

    @property
    def harmless(self) -> list[UnreadData]:
        """What was not read and cannot hide a Kafka call."""
        return [entry for entry in self.entries if entry.is_harmless]


def _add(entries: dict[tuple[str, str, str], UnreadData], data: UnreadData) -> None:
    key = data.file, data.kind, data.reason
    before = entries.get(key)
    entries[key] = data if before is None else _sum(before, data)


def _sum(entry: UnreadData, other: UnreadData) -> UnreadData:
    size = None
    if entry.size_bytes is not None and other.size_bytes is not None:
        size = -1 if min(entry.size_bytes, other.size_bytes) < 0 else entry.size_bytes + other.size_bytes
    packets = None if entry.packets is None or other.packets is None else entry.packets + other.packets
    connections, lines = entry.connections + other.connections, entry.lines + other.lines
    return replace(entry, size_bytes=size, packets=packets, connections=connections, lines=lines)
