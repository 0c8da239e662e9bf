"""What a capture file says about itself: libpcap's header, pcapng's sections and interfaces.

Sources: pcap-savefile(5), draft-ietf-opsawg-pcapng, tcpdump.org/linktypes.html. Packets are walked by kernels
(``packets.py``); only what stands between them is read here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from kafkaframes.capture.layout import (
    BINARY,
    DIVIDE,
    INTERFACE_COLUMNS,
    LARGEST_PACKET,
    MULTIPLY,
    PCAP,
    PCAPNG,
)
from kafkaframes.errors import DecodeError

Ints = npt.NDArray[np.int64]

FILE_HEADER_BYTES: Final = 24
SECTION_HEADER: Final = 0x0A0D0D0A
_BYTE_ORDER: Final = 0x1A2B3C4D
_MICROSECONDS, _NANOSECONDS = 0xA1B2C3D4, 0xA1B23C4D
_IF_TSRESOL, _IF_TSOFFSET = 9, 14
MOST_INTERFACES: Final = 4096

LINK_TYPES: Final = {
    0: "BSD loopback",
    1: "Ethernet",
    9: "PPP",
    12: "raw IP",
    14: "raw IP",
    50: "PPP",
    101: "raw IP",
    108: "OpenBSD loopback",
    113: "Linux cooked",
    228: "IPv4",
    229: "IPv6",
    239: "NFLOG",
    276: "Linux cooked v2",
}
# What others are called, for the gap that says so (tcpdump.org/linktypes.html).
OTHER_LINK_TYPES: Final = {
    6: "Token Ring",
    10: "FDDI",
    51: "PPPoE",
    104: "Cisco HDLC",
    105: "IEEE 802.11",
    107: "Frame Relay",
    119: "IEEE 802.11 with Prism's header",
    127: "IEEE 802.11 with radiotap",
    147: "of a user's own",
    187: "Bluetooth HCI",
    189: "USB of Linux",
    192: "PPI",
    195: "IEEE 802.15.4",
    201: "Bluetooth HCI",
    220: "USB of Linux",
    249: "USBPcap",
    252: "Wireshark's upper PDU",
    253: "Linux netlink",
    258: "PKTAP",
}
# First bytes of what is no capture of ours, and what it is.
_OTHERS: Final = (
    (b"snoop\0\0\0", "a snoop capture (RFC 1761); editcap -F pcapng turns it into one that is read"),
    (b"\xa1\xb2\xcd\x34", "a capture in Kuznetzov's modified pcap; editcap -F pcapng turns it into one that is read"),
    (b"\x34\xcd\xb2\xa1", "a capture in Kuznetzov's modified pcap; editcap -F pcapng turns it into one that is read"),
    (b"TRSNIFF data", "a NetXRay or Sniffer capture; editcap -F pcapng turns it into one that is read"),
    (b"GMBU", "a Microsoft Network Monitor capture; editcap -F pcapng turns it into one that is read"),
    (b"RTSS", "a Microsoft Network Monitor capture; editcap -F pcapng turns it into one that is read"),
    (b"PK\x03\x04", "a zip archive: unpack it"),
    (b"\xfd7zXZ", "compressed with xz: unpack it"),
    (b"BZh", "compressed with bzip2: unpack it"),
)


@dataclass
class Container:
    """The state that a walk over packets needs.

    Attributes:
        kind: ``PCAP`` or ``PCAPNG``.
        little: whether numbers are little-endian, in the current section.
        start: where the first record or block starts.
        interfaces: a row for each, in the columns of ``layout.py``.
    """

    kind: int
    little: bool
    start: int
    interfaces: Ints = field(default_factory=lambda: np.zeros((0, INTERFACE_COLUMNS), np.int64))

    def unsupported_links(self) -> list[int]:
        """Return the link types that are not read."""
        return sorted({int(one) for one in self.interfaces[:, 0]} - LINK_TYPES.keys())


def open_container(head: bytes, file: str) -> Container:
    """Return what the first bytes of a file say.

    Raises:
        DecodeError: it is no capture, or of a kind that is not read; the message says which.
    """
    for magic, what in _OTHERS:
        if head.startswith(magic):
            raise DecodeError(f"this is {what}", file=file, position=0)
    if len(head) >= 12 and struct.unpack(">I", head[:4])[0] == SECTION_HEADER:
        return Container(PCAPNG, _section_is_little(head, 0, file), 0)
    for order in ("<", ">"):
        if len(head) >= 4 and struct.unpack(order + "I", head[:4])[0] in (_MICROSECONDS, _NANOSECONDS):
            return _pcap(head, order, file)
    size = f"the file has {len(head)} bytes" if len(head) < FILE_HEADER_BYTES else f"it starts with {head[:8].hex(' ')}"
    raise DecodeError(f"neither pcap nor pcapng: {size}", file=file, position=0)


def _pcap(head: bytes, order: str, file: str) -> Container:
    if len(head) < FILE_HEADER_BYTES:
        raise DecodeError(f"a pcap file header has 24 bytes, here are {len(head)}", file=file, position=0)
    magic, major, minor, _, _, snap, link = struct.unpack(order + "IHHIIII", head[:FILE_HEADER_BYTES])
    if major != 2:
        raise DecodeError(f"pcap version {major}.{minor}; 2.4 is read", file=file, position=4)
    found = Container(PCAP, order == "<", FILE_HEADER_BYTES)
    factor = 1 if magic == _NANOSECONDS else 1000
    found.interfaces = np.array([[link & 0xFFFF, MULTIPLY, factor, 0, snap]], np.int64)
    return found


def _section_is_little(block: bytes, position: int, file: str) -> bool:
    for order in ("<", ">"):
        if struct.unpack_from(order + "I", block, 8)[0] == _BYTE_ORDER:
            return order == "<"
    raise DecodeError("a section header without pcapng's byte order mark", file=file, position=position + 8)


def take_block(container: Container, block: bytes, position: int, file: str) -> int | None:
    """Take a section header or interface block into the container; return its size, ``None`` if it is not whole.

    Raises:
        DecodeError: the block contradicts itself.
    """
    if len(block) < 12:
        return None
    if struct.unpack_from(">I", block)[0] == SECTION_HEADER:
        container.little = _section_is_little(block, position, file)
        container.interfaces = np.zeros((0, INTERFACE_COLUMNS), np.int64)
        return _size(block, "<" if container.little else ">", position, file)
    order = "<" if container.little else ">"
    size = _size(block, order, position, file)
    if size is None:
        return None
    if len(container.interfaces) >= MOST_INTERFACES:
        raise DecodeError(f"more than {MOST_INTERFACES} interfaces in one section", file=file, position=position)
    if size < 20:
        raise DecodeError("an interface block of too few bytes", file=file, position=position)
    row = _interface(block[:size], order)
    container.interfaces = np.concatenate([container.interfaces, np.array([row], np.int64)])
    return size


def _size(block: bytes, order: str, position: int, file: str) -> int | None:
    size = int(struct.unpack_from(order + "I", block, 4)[0])
    if size < 12 or size % 4 or size > LARGEST_PACKET:
        raise DecodeError(f"a pcapng block of {size} bytes", file=file, position=position + 4)
    if len(block) < size:
        return None
    again = struct.unpack_from(order + "I", block, size - 4)[0]
    if again != size:
        raise DecodeError(f"a pcapng block of {size} bytes that ends with {again}", file=file, position=position)
    return size


def _interface(block: bytes, order: str) -> tuple[int, int, int, int, int]:
    link, _, snap = struct.unpack_from(order + "HHI", block, 8)
    ticks, factor, shift_ns = MULTIPLY, 1000, 0
    at = 16
    while at + 4 <= len(block) - 4:
        code, length = struct.unpack_from(order + "HH", block, at)
        value = block[at + 4 : min(at + 4 + length, len(block) - 4)]
        if code == 0:
            break
        if code == _IF_TSRESOL and value:
            ticks, factor = _resolution(value[0])
        elif code == _IF_TSOFFSET and len(value) == 8:
            seconds = struct.unpack(order + "q", value)[0]
            shift_ns = seconds * 1_000_000_000 if abs(seconds) < 1 << 33 else 0
        at += 4 + (length + 3) // 4 * 4
    return link, ticks, factor, shift_ns, snap


def _resolution(value: int) -> tuple[int, int]:
    """Return how ticks become nanoseconds (if_tsresol: a negative power of 10, or of 2 with the high bit)."""
    if value & 0x80:
        return (BINARY, min(value & 0x7F, 63)) if value & 0x7F else (MULTIPLY, 10**9)
    return (MULTIPLY, 10 ** (9 - value)) if value <= 9 else (DIVIDE, 10 ** min(value - 9, 18))
