"""File formats and link layers: read, or rejected by name; blocks and numbers that other tools write."""

from __future__ import annotations

import gzip
import struct

import pytest
from tests.capture.conversation import CLIENT, SERVER, START_NS, Tape, build_streams

from kafkaframes.capture.container import LINK_TYPES, UNSUPPORTED_LINK_TYPES
from kafkaframes.capture.reader import CaptureOptions, read_capture
from kafkaframes.errors import DecodeError

ASKED, ANSWERED, KNOWN = build_streams()
MAC_ADDRESSES = bytes(12)
START_SECONDS = START_NS // 1_000_000_000


def ip_packets():
    """Return the conversation as IP packets."""
    tape = Tape().segment(CLIENT, 0, ASKED).segment(SERVER, 0, ANSWERED)
    data, packets, at = b"".join(tape.parts), [], 0
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        if kind == 6:
            (captured_size,) = struct.unpack_from("<I", data, at + 20)
            packets.append(data[at + 28 : at + 28 + captured_size])
        at += size
    return packets


PACKETS = ip_packets()


def build_pcap(packets, link, *, order="<", magic=0xA1B2C3D4, version=(2, 4)):
    head = struct.pack(f"{order}IHHIIII", magic, *version, 0, 0, 262144, link)
    records = (
        struct.pack(f"{order}IIII", START_SECONDS, number, len(one), len(one)) + one
        for number, one in enumerate(packets)
    )
    return head + b"".join(records)


def build_block(kind, body, order="<"):
    body += bytes(-len(body) % 4)
    size = struct.pack(f"{order}I", 12 + len(body))
    return struct.pack(f"{order}I", kind) + size + body + size


def build_pcapng(packets, *, order="<", between=b"", simple=False, ticks=None, options=b""):
    section = build_block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order)
    interface = build_block(1, struct.pack(f"{order}HHI", 101, 0, 0) + options, order)
    parts = [section, interface]
    for number, one in enumerate(packets):
        if simple:
            parts.append(build_block(3, struct.pack(f"{order}I", len(one)) + one, order))
        else:
            high, low = divmod(number if ticks is None else ticks, 1 << 32)
            head = struct.pack(f"{order}IIIII", 0, high, low, len(one), len(one))
            parts.append(build_block(6, head + one, order))
        parts.append(between)
    return b"".join(parts)


def read_calls(raw, folder):
    path = folder / "x.pcap"
    path.write_bytes(raw)
    capture = read_capture(str(path), CaptureOptions(columns=("apiKey", "apiVersion", "correlationId")))
    calls = [tuple(row.values()) for row in capture.read_all().to_pylist()]
    return sorted(calls, key=lambda one: one[2]), [entry.reason for entry in capture.coverage.unread]


LINK_TYPES_AND_ORDERS = sorted((one[:3] for one in KNOWN), key=lambda one: one[2])
HEADER_BY_LINK_TYPE = {
    0: b"\x02\0\0\0",
    1: MAC_ADDRESSES + b"\x08\x00",
    9: b"\xff\x03\x00\x21",
    12: b"",
    14: b"",
    50: b"\x21",
    101: b"",
    108: b"\0\0\0\x02",
    113: bytes(14) + b"\x08\x00",
    228: b"",
    239: b"\x02\0\0\0" + b"\x08\0\x01\0\x08\0\x03\0" + b"\x05\0\x0a\0\0\0\0\0" + b"\xff\x07\x09\0",
    276: b"\x08\x00" + bytes(18),
}
HEADER_BY_LINK_TYPE[258] = HEADER_BY_LINK_TYPE[149] = (
    struct.pack("<III", 108, 1, 1).ljust(108, b"\0") + HEADER_BY_LINK_TYPE[1]
)  # PKTAP around Ethernet


@pytest.mark.parametrize("link", HEADER_BY_LINK_TYPE)
def test_link_layers(link, tmp_path):
    assert read_calls(build_pcap([HEADER_BY_LINK_TYPE[link] + one for one in PACKETS], link), tmp_path) == (
        LINK_TYPES_AND_ORDERS,
        [],
    )


def test_every_supported_link_layer_is_tested():
    assert HEADER_BY_LINK_TYPE.keys() | {229} == LINK_TYPES.keys()  # 229: IPv6 only, like 228


@pytest.mark.parametrize("link", [*UNSUPPORTED_LINK_TYPES, 7777])
def test_other_link_layers_are_rejected_by_name(link, tmp_path):
    calls, (reason,) = read_calls(build_pcap(PACKETS, link), tmp_path)
    assert calls == []
    assert f"link type {link}" in reason
    assert UNSUPPORTED_LINK_TYPES.get(link, "") in reason


@pytest.mark.parametrize("cut_at", range(0, 60, 7))
@pytest.mark.parametrize("link", HEADER_BY_LINK_TYPE)
def test_packets_of_a_few_bytes_are_skipped(link, cut_at, tmp_path):
    whole = [HEADER_BY_LINK_TYPE[link] + one for one in PACKETS]
    calls, _ = read_calls(build_pcap([one[:cut_at] for one in whole] + whole, link), tmp_path)
    assert calls == LINK_TYPES_AND_ORDERS


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("magic", [0xA1B2C3D4, 0xA1B23C4D])
def test_byte_orders_and_resolutions_of_pcap(order, magic, tmp_path):
    assert read_calls(build_pcap(PACKETS, 101, order=order, magic=magic), tmp_path) == (LINK_TYPES_AND_ORDERS, [])


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("simple", [False, True])
def test_pcapng_blocks_of_other_tools_are_skipped(order, simple, tmp_path):
    """The blocks contain name resolution, statistics, journals, decryption secrets, and custom or unknown data."""
    names = build_block(4, struct.pack(f"{order}HH", 1, 8) + b"\x0a\0\0\x01a.b\0" + bytes(4), order)
    statistics = build_block(5, struct.pack(f"{order}III", 0, 0, 0), order)
    secrets = build_block(10, struct.pack(f"{order}II", 0x544C534B, 4) + b"none", order)
    others = [build_block(kind, b"what they like", order) for kind in (9, 0xBAD, 0x40000BAD, 0x80000001, 0x204)]
    between = b"".join([names, statistics, secrets, *others])
    raw = build_pcapng(PACKETS, order=order, between=between, simple=simple)
    assert read_calls(raw, tmp_path) == (LINK_TYPES_AND_ORDERS, [])
    again = build_pcapng(PACKETS, order=">" if order == "<" else "<")  # a second section, in the other byte order
    assert read_calls(raw + again, tmp_path)[0] == LINK_TYPES_AND_ORDERS


# (if_tsresol, ticks per second); without the option a tick is a microsecond, as most recorders write it.
RESOLUTIONS = [
    (None, 10**6),
    *((power, 10**power) for power in range(11)),
    *((128 + n, 2**n) for n in (0, 1, 10, 32, 33)),
]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("resolution", "per_second"), RESOLUTIONS)
def test_times_of_pcapng_are_converted(resolution, per_second, order, tmp_path):
    ticks = per_second * (START_SECONDS * 1000 + 250) // 1000
    assert read_times(resolution, order, ticks, tmp_path) == {ticks * 1_000_000 // per_second}


@pytest.mark.parametrize(("resolution", "ticks", "microseconds"), [
    (12, 2**64 - 1, 18446744073709), (27, 2**64 - 1, 0), (128 + 40, (7 << 40) + (1 << 39), 7_500_000),
    (128 + 63, 2**64 - 1, 1_999_999), (0, 2**33, 2**33 * 10**6), (6, 2**63 - 1, 0), (0, 2**64 - 1, 0),
])  # fmt: skip
def test_unusual_times_of_pcapng_are_converted(resolution, ticks, microseconds, tmp_path):
    """The last two times exceed the range of nanoseconds and become 0."""
    assert read_times(resolution, "<", ticks, tmp_path) == {microseconds}


def read_times(resolution, order, ticks, folder):
    options = b"" if resolution is None else struct.pack(f"{order}HHBxxxHH", 9, 1, resolution, 0, 0)
    path = folder / "x.pcapng"
    path.write_bytes(build_pcapng(PACKETS, order=order, ticks=ticks, options=options))
    rows = read_capture(str(path), CaptureOptions(columns=("requestTime",))).read_all()
    return set(rows.column("requestTime").cast("int64").to_pylist())


def test_a_truncated_last_packet_is_reported(tmp_path):
    calls, (reason,) = read_calls(build_pcap([*PACKETS, PACKETS[-1]], 101)[:-9], tmp_path)
    assert calls == LINK_TYPES_AND_ORDERS
    assert "inside a packet" in reason


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (build_pcap(PACKETS, 101, magic=0xA1B2CD34), "Kuznetzov"),
        (build_pcap(PACKETS, 101, version=(543, 0)), "pcap version 543.0"),
        (b"snoop\0\0\0" + bytes(40), "snoop"),
        (b"TRSNIFF data    \x1a" + bytes(40), "Sniffer"),
        (b"GMBU" + bytes(40), "Network Monitor"),
        (b"RTSS" + bytes(40), "Network Monitor"),
        (b"PK\x03\x04" + bytes(40), "zip"),
        (b"\xfd7zXZ\0" + bytes(40), "xz"),
        (b"BZh9" + bytes(40), "bzip2"),
        (b"<?xml version" + bytes(40), "neither pcap nor pcapng"),
        (b"\x0a\x0d\x0d\x0a" + bytes(40), "byte-order"),
        (b"", "an empty file"),
        (bytes(3), "begins with 00 00 00"),
        (gzip.compress(b"GMBU" + bytes(40), mtime=0), "Network Monitor"),
    ],
)
def test_unsupported_formats_are_rejected_by_name(raw, words, tmp_path):
    with pytest.raises(DecodeError, match=words) as caught:
        read_calls(raw, tmp_path)
    assert "x.pcap" in str(caught.value)


def test_an_invalid_utf_8_client_id_is_decoded_as_in_java(tmp_path):
    requests = ASKED.replace(b"tester", b"t\xed\xa0\x80er")  # a surrogate: one U+FFFD in Java, three in Python
    path = Tape().segment(CLIENT, 0, requests).segment(SERVER, 0, ANSWERED).write(tmp_path / "x.pcapng")
    names = [
        name for batch in read_capture([path], CaptureOptions(columns=("clientId",))) for name in batch[0].to_pylist()
    ]
    assert names == ["t\ufffder"] * len(KNOWN)
