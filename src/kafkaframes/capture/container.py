"""Read the structure of capture files (the libpcap header, pcapng sections and interfaces), and write pcapng files.

Sources: pcap-savefile(5), draft-ietf-opsawg-pcapng, tcpdump.org/linktypes.html. Kernels scan the packets
(``packets.py``); this module only reads the blocks between them. Written files are pcapng with raw IP packets. Written
files contain synthetic TCP segments around the bytes of a conversation, with checksum 0, as in captures of local
traffic, and times in nanoseconds.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from kafkaframes.capture import layout
from kafkaframes.capture.layout import ACK, FIN, PSH, RST, SYN
from kafkaframes.errors import DecodeError
from kafkaframes.errors.words import count_text
from kafkaframes.storage.files.contents import describe_content

Ints = npt.NDArray[np.int64]

FILE_HEADER_BYTES: Final = 24  # size of the libpcap file header
SECTION_HEADER_BLOCK: Final = 0x0A0D0D0A
_BYTE_ORDER_MAGIC: Final = 0x1A2B3C4D
_MICROSECONDS, _NANOSECONDS = 0xA1B2C3D4, 0xA1B23C4D
_IF_TSRESOL, _IF_TSOFFSET = 9, 14
INTERFACE_BLOCK: Final = 1
MAX_INTERFACES: Final = 1 << 20  # largest number of interfaces in a section; they need at most 40 MB of memory

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
    149: "PKTAP",
    228: "IPv4",
    229: "IPv6",
    239: "NFLOG",
    258: "PKTAP",
    276: "Linux cooked v2",
}
# Names of unsupported link types, for the report of unread data (tcpdump.org/linktypes.html).
UNSUPPORTED_LINK_TYPES: Final = {
    6: "Token Ring",
    10: "FDDI",
    51: "PPPoE",
    104: "Cisco HDLC",
    105: "IEEE 802.11",
    107: "Frame Relay",
    119: "IEEE 802.11 with a Prism header",
    127: "IEEE 802.11 with a radiotap header",
    147: "user-defined",
    187: "Bluetooth HCI",
    189: "USB of Linux",
    192: "PPI",
    195: "IEEE 802.15.4",
    201: "Bluetooth HCI",
    220: "USB of Linux",
    249: "USBPcap",
    252: "Wireshark's upper PDU",
    253: "Linux netlink",
}
# Pairs of the first bytes and the description of an unsupported file format.
_OTHER_FORMAT_SIGNATURES: Final = (
    (b"snoop\0\0\0", "a snoop capture (RFC 1761); convert it with editcap -F pcapng"),
    (b"\xa1\xb2\xcd\x34", "a capture in Kuznetzov's modified pcap; convert it with editcap -F pcapng"),
    (b"\x34\xcd\xb2\xa1", "a capture in Kuznetzov's modified pcap; convert it with editcap -F pcapng"),
    (b"TRSNIFF data", "a NetXRay or Sniffer capture; convert it with editcap -F pcapng"),
    (b"GMBU", "a Microsoft Network Monitor capture; convert it with editcap -F pcapng"),
    (b"RTSS", "a Microsoft Network Monitor capture; convert it with editcap -F pcapng"),
    (b"PK\x03\x04", "a zip archive: unpack it"),
    (b"\xfd7zXZ", "compressed with xz: unpack it"),
    (b"BZh", "compressed with bzip2: unpack it"),
)


class CaptureFormat:
    """The properties of a capture file that a packet scan needs.

    Attributes:
        kind: ``PCAP`` or ``PCAPNG``.
        little: whether integers of the current section are little-endian.
        start: position of the first record or block.
        links: link types of all interfaces so far, including those of earlier sections.
    """

    def __init__(self, kind: int, little: bool, start: int) -> None:
        self.kind, self.little, self.start = kind, little, start
        self.links: set[int] = set()
        self._table = np.zeros((4, layout.INTERFACE_COLUMN_COUNT), np.int64)
        self._count = 0

    @property
    def interfaces(self) -> Ints:
        """A row for each interface of the current section, in the columns of ``layout.py``."""
        return self._table[: self._count]

    def begin_section(self, *, little: bool) -> None:
        """Start a section, which has its own interfaces."""
        self.little = little
        self._count = 0

    def add_interface(self, row: tuple[int, int, int, int, int]) -> None:
        """Add an interface to the current section."""
        if self._count == len(self._table):
            self._table = np.concatenate([self._table, np.zeros_like(self._table)])
        self._table[self._count] = row
        self._count += 1
        self.links.add(row[0])

    def list_unsupported_links(self) -> list[int]:
        """Return the unsupported link types among the interfaces."""
        return sorted(self.links - LINK_TYPES.keys())


def open_container(head: bytes, file: str) -> CaptureFormat:
    """Detect the format of a capture file from its first bytes.

    Raises:
        DecodeError: the file is not a capture, or has an unsupported format, which the message names if it is known.
    """
    for magic, format_name in _OTHER_FORMAT_SIGNATURES:
        if head.startswith(magic):
            raise DecodeError(f"this is {format_name}", file=file, position=0)
    if len(head) >= 12 and struct.unpack(">I", head[:4])[0] == SECTION_HEADER_BLOCK:
        return CaptureFormat(layout.PCAPNG, _is_little_endian_section(head, 0, file), 0)
    for order in ("<", ">"):
        if len(head) >= 4 and struct.unpack(order + "I", head[:4])[0] in (_MICROSECONDS, _NANOSECONDS):
            return _read_pcap_header(head, order, file)
    raise DecodeError(f"neither pcap nor pcapng, but {describe_content(head, '')}", file=file, position=0)


def _read_pcap_header(head: bytes, order: str, file: str) -> CaptureFormat:
    if len(head) < FILE_HEADER_BYTES:
        raise DecodeError(
            f"the pcap file header has {count_text(len(head), 'byte')}; expected 24", file=file, position=0
        )
    magic, major, minor, _, _, snap, link = struct.unpack(order + "IHHIIII", head[:FILE_HEADER_BYTES])
    if major != 2:
        raise DecodeError(f"unsupported pcap version {major}.{minor}; expected 2.4", file=file, position=4)
    result = CaptureFormat(layout.PCAP, order == "<", FILE_HEADER_BYTES)
    factor = 1 if magic == _NANOSECONDS else 1000
    result.add_interface((link & 0xFFFF, layout.MULTIPLY, factor, 0, snap))
    return result


def _is_little_endian_section(block: bytes | memoryview, position: int, file: str) -> bool:
    for order in ("<", ">"):
        if struct.unpack_from(order + "I", block, 8)[0] == _BYTE_ORDER_MAGIC:
            return order == "<"
    raise DecodeError("the section header has no pcapng byte-order magic", file=file, position=position + 8)


def read_block(container: CaptureFormat, block: memoryview, position: int, file: str) -> int:
    """Read a section header or interface block into the container. Return the size of the block, in bytes.

    The size is 0 if the bytes start with another block or an incomplete one. No bytes after the block are copied.

    Raises:
        DecodeError: the block is inconsistent.
    """
    if len(block) < 12:
        return 0
    is_section = struct.unpack_from(">I", block)[0] == SECTION_HEADER_BLOCK
    little = _is_little_endian_section(block, position, file) if is_section else container.little
    order = "<" if little else ">"
    if not is_section and struct.unpack_from(order + "I", block)[0] != INTERFACE_BLOCK:
        return 0
    size = _read_block_size(block, order, position, file)
    if is_section and size:
        container.begin_section(little=little)
    elif size:
        if len(container.interfaces) >= MAX_INTERFACES:
            raise DecodeError(f"more than {MAX_INTERFACES:,} interfaces in one section", file=file, position=position)
        if size < 20:
            raise DecodeError("an interface block is too short", file=file, position=position)
        container.add_interface(_parse_interface(block[:size], order))
    return size


def _read_block_size(block: memoryview, order: str, position: int, file: str) -> int:
    """Return the size of a pcapng block; 0 if the block is incomplete."""
    size = int(struct.unpack_from(order + "I", block, 4)[0])
    if size < 12 or size % 4 or size > layout.MAX_PACKET_BYTES:
        raise DecodeError(f"a pcapng block has the invalid size {size}", file=file, position=position + 4)
    if len(block) < size:
        return 0
    repeated_size = struct.unpack_from(order + "I", block, size - 4)[0]
    if repeated_size != size:
        raise DecodeError(
            f"the pcapng block of {count_text(size, 'byte')} repeats its size as {repeated_size}",
            file=file,
            position=position,
        )
    return size


def _parse_interface(block: memoryview, order: str) -> tuple[int, int, int, int, int]:
    link, _, snap = struct.unpack_from(order + "HHI", block, 8)
    ticks, factor, shift_ns = layout.MULTIPLY, 1000, 0
    position = 16
    while position + 4 <= len(block) - 4:
        code, length = struct.unpack_from(order + "HH", block, position)
        value = block[position + 4 : min(position + 4 + length, len(block) - 4)]
        if code == 0:
            break
        if code == _IF_TSRESOL and value:
            ticks, factor = _parse_resolution(value[0])
        elif code == _IF_TSOFFSET and len(value) == 8:
            seconds = struct.unpack(order + "q", value)[0]
            shift_ns = seconds * 1_000_000_000 if abs(seconds) < 1 << 33 else 0
        position += 4 + (length + 3) // 4 * 4
    return link, ticks, factor, shift_ns, snap


def _parse_resolution(value: int) -> tuple[int, int]:
    """Return the operation and the factor that convert ticks of a resolution to nanoseconds.

    ``value`` is ``if_tsresol``: a negative power of 10, or of 2 if its high bit is set.
    """
    if value & 0x80:
        return (layout.BINARY, min(value & 0x7F, 63)) if value & 0x7F else (layout.MULTIPLY, 10**9)
    return (layout.MULTIPLY, 10 ** (9 - value)) if value <= 9 else (layout.DIVIDE, 10 ** min(value - 9, 18))


MAX_SEGMENT_BYTES: Final = 60_000  # largest payload of a synthetic TCP segment; an IPv4 packet has at most 65,535 bytes
_RAW_IP, _IN_NANOSECONDS = 101, 9
_PACKET_HEADER: Final = struct.Struct("<IIIIIII")

End = tuple[str, int]


def build_file_header(application: str) -> bytes:
    """Return the section header and interface block with which a file starts."""
    options = _encode_option(4, application.encode()) + _encode_option(0, b"")
    size = 28 + len(options)
    section = struct.pack("<IIIHHq", 0x0A0D0D0A, size, 0x1A2B3C4D, 1, 0, -1) + options + struct.pack("<I", size)
    body = (
        struct.pack("<HHI", _RAW_IP, 0, 0)
        + _encode_option(_IF_TSRESOL, bytes([_IN_NANOSECONDS]))
        + _encode_option(0, b"")
    )
    return section + struct.pack("<II", 1, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


def _encode_option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


def _encode_record(time_ns: int, packet: bytes) -> bytes:
    padded = len(packet) + (-len(packet) % 4)
    size = 32 + padded
    head = _PACKET_HEADER.pack(6, size, 0, time_ns >> 32, time_ns & 0xFFFFFFFF, len(packet), len(packet))
    return head + packet.ljust(padded, b"\0") + struct.pack("<I", size)


class ConversationWriter:
    """A writer of one TCP connection, which tracks the sequence numbers of both sides.

    ``initial`` is the sequence number of both SYNs, which must differ between connections with the same ports.
    """

    def __init__(self, client: End, server: End, *, initial: int = 0) -> None:
        self.ends = (client, server)
        self.initial = initial & 0xFFFFFFFF
        self.next = [
            self.get_sequence_number(0),
            self.get_sequence_number(0),
        ]  # next sequence number of each side
        self._addresses = [ipaddress.ip_address(end[0]) for end in self.ends]
        self._is_v4 = all(address.version == 4 for address in self._addresses)

    def get_sequence_number(self, offset: int) -> int:
        """Return the sequence number of a stream offset."""
        return (self.initial + 1 + offset) & 0xFFFFFFFF

    def build_handshake(self, time_ns: int) -> bytes:
        """Return the three packets of the TCP handshake."""
        first = self.get_sequence_number(0)
        steps = ((0, self.initial, 0, SYN), (1, self.initial, first, SYN | ACK), (0, first, first, ACK))
        return b"".join(_encode_record(time_ns, self._build_packet(*step, b"")) for step in steps)

    def build_data_packets(self, side: int, data: bytes | memoryview, time_ns: int) -> Iterator[bytes]:
        """Yield packets with bytes of one side (0: client, 1: server)."""
        for start in range(0, len(data), MAX_SEGMENT_BYTES):
            part = data[start : start + MAX_SEGMENT_BYTES]
            yield _encode_record(
                time_ns, self._build_packet(side, self.next[side], self.next[1 - side], PSH | ACK, part)
            )
            self.next[side] = (self.next[side] + len(part)) & 0xFFFFFFFF

    def skip(self, side: int, size: int) -> None:
        """Skip bytes from one side, which a reader of the file then reports as missing."""
        self.next[side] = (self.next[side] + size) & 0xFFFFFFFF

    def build_close_packet(self, side: int, time_ns: int, *, reset: bool = False) -> bytes:
        """Return a FIN or RST packet from one side."""
        return _encode_record(
            time_ns, self._build_packet(side, self.next[side], self.next[1 - side], RST if reset else FIN | ACK, b"")
        )

    def _build_packet(
        self, side: int, sequence: int, acknowledged: int, flags: int, payload: bytes | memoryview
    ) -> bytes:
        ports = self.ends[side][1], self.ends[1 - side][1]
        tcp = struct.pack(">HHIIBBHHH", *ports, sequence, acknowledged, 0x50, flags, 0xFFFF, 0, 0)
        size = len(tcp) + len(payload)
        if self._is_v4:
            head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + size, 0, 0x4000, 64, 6, 0)
        else:
            head = struct.pack(">IHBB", 0x60000000, size, 6, 64)
        return b"".join([head, self._pack_address(side), self._pack_address(1 - side), tcp, payload])

    def _pack_address(self, side: int) -> bytes:
        address = self._addresses[side]
        if self._is_v4 or address.version == 6:
            return address.packed
        return bytes(10) + b"\xff\xff" + address.packed
