"""Unread data: packets by link type and ethertype, connections, gaps, files; and traffic read inside encapsulations.

The encapsulations are those of public reports: cooked captures with VLAN tags, ERSPAN I and III (OISF/suricata PR 4466,
tcpdump PR 1188), PKTAP (libpcap#1259, tcpdump PR 1330), IP length 0 (tcpdump's tests gso-*, bigtcp-*).
"""

from __future__ import annotations

import gzip
import random
import struct

import pytest
import zstandard
from tests.capture.wrappings import (
    ARP,
    CALL_COUNT,
    ESP,
    GRE,
    HTTP_MESSAGES,
    IP4,
    IP6,
    LLDP,
    MACSEC,
    TCP,
    TLS_MESSAGES,
    UDP,
    build_pcap,
    build_request,
    build_response,
    build_segments,
    ethernet,
    gre,
    ip4,
    ip6,
    packets4,
    packets6,
    pktap,
    sll,
    sll2,
    tag,
    tunnel,
    udp,
)

import kafkaframes
from kafkaframes.capture import layout
from kafkaframes.capture.coverage import ENTRY_KINDS, HARMLESS_KINDS
from kafkaframes.capture.packets import PacketReader
from kafkaframes.capture.reader import CaptureBatches, CaptureOptions
from kafkaframes.errors import DecodeError, OptionError

FRAMES = [ethernet(IP4, packet) for packet in packets4()]


def read_with_coverage(tmp_path, *files, **options):
    """Return the number of complete calls, and the coverage, of captures that belong together."""
    paths = []
    for number, data in enumerate(files):
        path = tmp_path / f"x{number}.pcap"
        path.write_bytes(data)
        paths.append(str(path))
    batches = CaptureBatches(paths, CaptureOptions(**options))
    table = batches.read_all()
    count = (
        sum(name is not None for name in table.column("response").to_pylist())
        if "response" in table.schema.names
        else 0
    )
    return count, batches.coverage


def kinds(entries):
    return {(entry.kind, entry.reason) for entry in entries}


def erspan_3(data, *, frame_type=0, has_subheader=False):
    facts = frame_type << 10 | has_subheader
    return struct.pack(">HHIHH", 0x2000, 0, 0, 0, facts) + bytes(8 * has_subheader) + data


WRAPPINGS = {
    "cooked, VLAN": (113, [sll(0x8100, tag(5, IP4) + one) for one in packets4()]),
    "cooked 2, VLAN": (276, [sll2(0x8100, tag(5, IP4) + one) for one in packets4()]),
    "cooked 2, two VLANs": (
        276,
        [sll2(0x88A8, tag(5, 0x8100) + tag(6, IP6) + one) for one in packets6()],
    ),
    "six VLANs": (
        1,
        [ethernet(0x88A8, tag(1, 0x8100) * 5 + tag(6, IP4) + one) for one in packets4()],
    ),
    "PPPoE": (1, [ethernet(0x8864, b"\x11\0\0\1\0\x20\0\x21" + one) for one in packets4()]),
    "PPPoE, IPv6": (1, [ethernet(0x8864, b"\x11\0\0\1\0\x20\0\x57" + one) for one in packets6()]),
    "cooked, PPPoE in a VLAN": (
        113,
        [sll(0x8100, tag(5, 0x8864) + b"\x11\0\0\1\0\x20\0\x21" + one) for one in packets4()],
    ),
    "MPLS": (1, [ethernet(0x8847, struct.pack(">II", 100 << 12 | 64, 101 << 12 | 0x100) + one) for one in packets4()]),
    "MPLS pseudowire": (1, [ethernet(0x8847, struct.pack(">II", 100 << 12 | 0x100, 0) + one) for one in FRAMES]),
    "SNAP": (1, [ethernet(len(one) + 8, b"\xaa\xaa\3\0\0\0" + struct.pack(">H", IP4) + one) for one in packets4()]),
    "GRE": (1, [tunnel(GRE, gre(IP4, one)) for one in packets4()]),
    "GRE of Ethernet": (1, [tunnel(GRE, gre(0x6558, one, key=7, sequence=1)) for one in FRAMES]),
    "ERSPAN I": (1, [tunnel(GRE, gre(0x88BE, one)) for one in FRAMES]),
    "ERSPAN II": (1, [tunnel(GRE, gre(0x88BE, bytes(8) + one, sequence=3)) for one in FRAMES]),
    "ERSPAN III": (1, [tunnel(GRE, gre(0x22EB, erspan_3(one), sequence=3)) for one in FRAMES]),
    "ERSPAN III, subheader": (
        1,
        [tunnel(GRE, gre(0x22EB, erspan_3(one, has_subheader=True))) for one in FRAMES],
    ),
    "ERSPAN III of IP": (1, [tunnel(GRE, gre(0x22EB, erspan_3(one, frame_type=2))) for one in packets4()]),
    "VXLAN": (1, [tunnel(UDP, udp(4789, struct.pack(">II", 8 << 24, 42 << 8) + one)) for one in FRAMES]),
    "GENEVE": (1, [tunnel(UDP, udp(6081, struct.pack(">BBHI", 2, 0, 0x6558, 0) + bytes(8) + one)) for one in FRAMES]),
    "GENEVE of IP": (1, [tunnel(UDP, udp(6081, struct.pack(">BBHI", 0, 0, IP4, 0) + one)) for one in packets4()]),
    "IPv6 with extension headers": (
        1,
        [
            ethernet(IP6, ip6(is_client, 0, b"\x3c\0" + bytes(6) + b"\6\0" + bytes(6) + segment))
            for is_client, segment in build_segments()
        ],
    ),
    "authentication header": (
        1,
        [ethernet(IP4, ip4(is_client, 51, b"\6\4" + bytes(22) + segment)) for is_client, segment in build_segments()],
    ),
    "BIG TCP": (
        1,
        [ethernet(IP6, ip6(is_client, TCP, segment, length=0)) for is_client, segment in build_segments()],
    ),
    "GSO": (
        1,
        [ethernet(IP4, ip4(is_client, TCP, segment, length=0)) for is_client, segment in build_segments()],
    ),
    "PKTAP": (258, [pktap(1, one) for one in FRAMES]),
    "PKTAP of raw IP": (258, [pktap(12, one) for one in packets6()]),
    "PKTAP by its first number": (149, [pktap(0, struct.pack("<I", 30) + one) for one in packets6()]),
}


@pytest.mark.parametrize("name", WRAPPINGS)
def test_all_calls_are_read_in_each_encapsulation(name, tmp_path):
    link, packets = WRAPPINGS[name]
    count, coverage = read_with_coverage(tmp_path, build_pcap(packets, link))
    assert (count, coverage.entries) == (CALL_COUNT, [])


@pytest.mark.parametrize("name", WRAPPINGS)
def test_encapsulated_packets_truncated_anywhere_are_counted(name, tmp_path):
    """For any snap length within the headers, every packet belongs to a call or is counted."""
    link, packets = WRAPPINGS[name]
    for snap in range(0, len(packets[3]), 3):
        count, coverage = read_with_coverage(tmp_path, build_pcap(packets, link, snap=snap))
        assert count < CALL_COUNT
        assert coverage.unread, snap
        assert all(entry.kind in ENTRY_KINDS for entry in coverage.entries)


# Encapsulation -> (packets in it, kind, reason).
UNREAD = {
    "Wi-Fi": (105, [b"\x08\x01" + bytes(22) + b"\xaa\xaa\x03\0\0\0\x08\0" + one for one in packets4()], "unsupported",
              "link type 105 (IEEE 802.11) is not read"),
    "radiotap": (127, [b"\0\0\x08\0\0\0\0\0" + one for one in packets4()], "unsupported",
                 "link type 127 (IEEE 802.11 with a radiotap header) is not read"),
    "an unknown link type": (7777, packets4(), "unsupported", "link type 7777 is not read"),
    "the second user link type": (149, packets4(), "unsupported", "link type 149 is not read"),
    "PKTAP of Wi-Fi": (258, [pktap(127, one) for one in packets4()], "unsupported",
                       "link type 127 (IEEE 802.11 with a radiotap header) is not read"),
    "MACsec": (1, [ethernet(MACSEC, one) for one in packets4()], "encrypted", "ethertype 0x88e5 (MACsec) is not read"),
    "an unknown ethertype": (1, [ethernet(0x4321, one) for one in packets4()], "unsupported",
                             "ethertype 0x4321 is not read"),
    "cooked, an unknown ethertype": (113, [sll(0x4321, one) for one in packets4()], "unsupported",
                                     "ethertype 0x4321 is not read"),
    "GRE of an unknown ethertype": (1, [tunnel(GRE, gre(0x4321, one)) for one in packets4()], "unsupported",
                                    "ethertype 0x4321 is not read"),
    "compressed PPP": (9, [b"\xff\x03\x00\xfd" + one for one in packets4()], "unsupported",
                       "PPP protocol 0x00fd is not read"),
    "IPsec": (1, [tunnel(ESP, one) for one in packets4()], "encrypted", "IP protocol 50 (IPsec ESP) is not read"),
    "IPsec in UDP": (1, [tunnel(UDP, udp(4500, one)) for one in packets4()], "encrypted",
                     "UDP port 4500 (IPsec) is not read"),
    "WireGuard": (1, [tunnel(UDP, udp(51820, one)) for one in packets4()], "encrypted",
                  "UDP port 51820 (WireGuard) is not read"),
    "GTP": (1, [tunnel(UDP, udp(2152, one)) for one in packets4()], "unsupported",
            "UDP port 2152 (GTP-U) is not read"),
    "neither IPv4 nor IPv6": (101, [b"\x90" + one for one in packets4()], "unsupported",
                              "neither IPv4 nor IPv6 (link type 101)"),
    "headers without end": (101, [ip4(True, 4, b"".join([struct.pack(">BBHHHBBH", 0x45, 0, 0, 1, 0, 64, 4, 0) + bytes(8)
                                                         for _ in range(30)]) + one) for one in packets4()],
                            "unsupported", "more than 24 nested headers"),
    "a short IP header": (1, [ethernet(IP4, b"\x41" + one[1:]) for one in packets4()], "damaged",
                          "the headers contradict themselves or end too early (IPv4)"),
    "a short TCP header": (1, [ethernet(IP4, one[:32] + b"\x10" + one[33:]) for one in packets4()], "damaged",
                           "the headers contradict themselves or end too early (IPv4)"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREAD)
def test_unread_packets_are_counted(name, tmp_path):
    link, packets, kind, reason = UNREAD[name]
    raw = build_pcap(packets, link)
    count, coverage = read_with_coverage(tmp_path, raw)
    assert count == 0
    (entry,) = coverage.unread
    assert (entry.kind, entry.reason, entry.packets) == (kind, reason, len(packets))
    assert not entry.is_harmless
    (row,) = kafkaframes.read_capture(str(tmp_path / "x0.pcap"), table="gaps").read_all().to_pylist()
    assert (row["kind"], row["reason"], row["packets"], row["packet"]) == (kind, reason, len(packets), 1)
    assert row["time"].timestamp() == 1_700_000_000


HARMLESS_PACKETS = {
    "ARP": (1, ethernet(ARP, bytes(28))),
    "LLDP": (1, ethernet(LLDP, bytes(40))),
    "spanning tree": (1, ethernet(38, b"\x42\x42\x03" + bytes(35))),
    "spanning tree, cooked": (113, sll(4, b"\x42\x42\x03" + bytes(35))),
    "ARP in a VLAN, cooked": (276, sll2(0x8100, tag(5, ARP) + bytes(28))),
    "DNS": (1, tunnel(UDP, udp(53, bytes(40)))),
    "ICMP": (1, tunnel(1, bytes(40))),
    "PPP's own negotiation": (9, b"\xff\x03\xc0\x21" + bytes(20)),
}


@pytest.mark.parametrize("name", HARMLESS_PACKETS)
def test_packets_of_other_protocols_are_counted_and_cause_no_errors(name, tmp_path):
    link, packet = HARMLESS_PACKETS[name]
    _, coverage = read_with_coverage(tmp_path, build_pcap([packet] * 5, link))
    (entry,) = coverage.harmless
    assert (entry.kind, entry.packets, coverage.unread) == ("other", 5, [])
    assert not {"damaged", "lost", "cut", "unsupported", "encrypted", "unknown"} & HARMLESS_KINDS


@pytest.mark.parametrize(
    ("messages", "expected_kind"),
    [
        (TLS_MESSAGES, ("encrypted", "encrypted (TLS)")),
        (HTTP_MESSAGES, ("other", "another protocol over TCP")),
        ([(False, b"220 mail.example ESMTP\r\n")], ("other", "another protocol over TCP")),
        ([], None),
    ],
)
def test_connections_of_other_protocols_are_reported(messages, expected_kind, tmp_path):
    count, coverage = read_with_coverage(
        tmp_path, build_pcap([ethernet(IP4, one) for one in packets4(messages=messages)])
    )
    assert count == 0
    assert kinds(coverage.entries) == ({expected_kind} if expected_kind else set())


def test_with_ports_other_connections_are_not_expected_to_be_kafka(tmp_path):
    raw = build_pcap([ethernet(IP4, one) for one in packets4(messages=TLS_MESSAGES)])
    assert kinds(read_with_coverage(tmp_path, raw, ports=(9092,))[1].unread) == {("encrypted", "encrypted (TLS)")}
    assert kinds(read_with_coverage(tmp_path, raw, ports=(9093,))[1].entries) == {
        ("other", "another protocol over TCP")
    }


def test_a_connection_without_a_recognisable_frame_is_unknown(tmp_path):
    raw = build_pcap([ethernet(IP4, one) for one in packets4(messages=[(True, b"\x81" * 40)] * 3, opening=False)])
    assert kinds(read_with_coverage(tmp_path, raw)[1].entries) == {
        ("unknown", "the protocol of the connection is not recognised")
    }


def test_keepalives_alone_are_not_reported(tmp_path):
    raw = build_pcap([ethernet(IP4, one) for one in packets4(messages=[(True, b"\0")] * 3, opening=False)])
    assert read_with_coverage(tmp_path, raw)[1].entries == []


@pytest.mark.parametrize("is_client", [True, False])
def test_one_direction_alone_is_reported(is_client, tmp_path):
    packets = [ethernet(IP4, ip4(who, TCP, segment)) for who, segment in build_segments() if who is is_client]
    _, coverage = read_with_coverage(tmp_path, build_pcap(packets))
    assert ("lost", "one direction of the connection is not in the capture") in kinds(coverage.unread)


def test_a_capture_may_start_and_end_within_a_connection(tmp_path):
    messages = [(True, build_request(1) + build_request(2)[:9])]
    raw = build_pcap([ethernet(IP4, one) for one in packets4(messages=messages)])
    _, coverage = read_with_coverage(tmp_path, raw, ports=(9092,))
    assert kinds(coverage.entries) == {("boundary", "the capture ends inside a frame")}
    whole = packets4(opening=False)
    count, coverage = read_with_coverage(tmp_path, build_pcap([ethernet(IP4, one) for one in whole]))
    assert count == CALL_COUNT
    assert kinds(coverage.entries) == {("boundary", "the connection began before the capture")}


def test_lost_and_truncated_packets_are_reported(tmp_path):
    remaining_frames = FRAMES[:5] + FRAMES[7:]
    assert ("lost", "packets are missing") in kinds(
        read_with_coverage(tmp_path, build_pcap(remaining_frames))[1].unread
    )
    assert {kind for kind, _ in kinds(read_with_coverage(tmp_path, build_pcap(FRAMES, snap=60))[1].unread)} == {"cut"}
    assert {kind for kind, _ in kinds(read_with_coverage(tmp_path, build_pcap(FRAMES, snap=20))[1].unread)} == {"cut"}


def test_a_frame_truncated_by_a_mirror_port_is_reported(tmp_path):
    """ERSPAN may truncate frames: then IP's length exceeds the data, although the capture itself truncates nothing."""
    packets = [tunnel(GRE, gre(0x88BE, one[:60])) for one in FRAMES]
    count, coverage = read_with_coverage(tmp_path, build_pcap(packets))
    assert count == 0
    assert {kind for kind, _ in kinds(coverage.unread)} == {"cut"}


def fragments(packet, identification):
    payload = packet[20:]
    half = len(payload) // 16 * 8
    head = struct.unpack(">BBHHHBBH4s4s", packet[:20])
    for offset, part, more in ((0, payload[:half], 0x2000), (half, payload[half:], 0)):
        fields = (*head[:2], 20 + len(part), identification, more | offset // 8, *head[5:])
        yield ethernet(IP4, struct.pack(">BBHHHBBH4s4s", *fields) + part)


def test_fragments_are_reassembled_and_incomplete_ones_counted(tmp_path):
    whole = [part for number, packet in enumerate(packets4()) for part in fragments(packet, number)]
    count, coverage = read_with_coverage(tmp_path, build_pcap(whole))
    assert (count, coverage.entries) == (CALL_COUNT, [])
    _, coverage = read_with_coverage(tmp_path, build_pcap(whole[:-1]))
    assert ("lost", "IP fragments of an incomplete datagram") in kinds(coverage.unread)
    other = list(fragments(ip4(True, UDP, udp(53, bytes(64))), 9))[:1]
    assert kinds(read_with_coverage(tmp_path, build_pcap(other))[1].entries) == {
        ("other", "IP fragments of another protocol")
    }


def test_fragments_of_a_tunnel_with_fragmented_packets_are_reassembled(tmp_path):
    inner = [part[14:] for number, packet in enumerate(packets4()) for part in fragments(packet, number)]
    outer = [ip4(True, 4, one) for one in inner]
    packets = [part for number, packet in enumerate(outer) for part in fragments(packet, 1000 + number)]
    count, coverage = read_with_coverage(tmp_path, build_pcap(packets))
    assert (count, coverage.entries) == (CALL_COUNT, [])


def test_kinds_above_a_number_share_one_entry(tmp_path):
    packets = [ethernet(0x2000 + number, bytes(30)) for number in range(600)]
    _, coverage = read_with_coverage(tmp_path, build_pcap(packets))
    assert len(coverage.unread) == 256
    assert sum(entry.packets for entry in coverage.unread) == 600
    assert coverage.unread[-1].reason == "packets of further kinds, after 255 listed kinds"


def test_one_invalid_file_of_many_is_an_entry_and_a_single_one_an_error(tmp_path):
    count, coverage = read_with_coverage(tmp_path, build_pcap(FRAMES), b"", b"\x89PNG")
    assert count == CALL_COUNT
    assert [entry.kind for entry in coverage.unread] == ["damaged", "damaged"]
    assert [entry.file[-7:] for entry in coverage.unread] == ["x1.pcap", "x2.pcap"]
    with pytest.raises(DecodeError, match="an empty file"):
        read_with_coverage(tmp_path, b"")


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.ZstdCompressor(write_checksum=True).compress])
def test_a_compressed_capture_truncated_or_damaged_at_any_byte_is_an_error_or_reported(compress, tmp_path):
    """The test reads each prefix of a compressed capture, and copies with a flipped bit in each byte."""
    raw = compress(build_pcap(FRAMES))
    for size in range(1, len(raw)):
        _outcome(tmp_path, raw[:size])
    for position in range(12, len(raw)):
        damaged_bytes = bytearray(raw)
        damaged_bytes[position] ^= 0x10
        _outcome(tmp_path, bytes(damaged_bytes))


def _outcome(tmp_path, raw):
    try:
        count, coverage = read_with_coverage(tmp_path, raw)
    except DecodeError as error:
        count, is_reported = 0, "x0.pcap" in str(error)
    else:
        is_reported = bool(coverage.unread) or count == CALL_COUNT
    assert is_reported


def test_a_capture_truncated_at_any_byte_is_an_error_or_reported_except_between_packets(tmp_path):
    raw = build_pcap(FRAMES)
    borders, at = set(), 24
    while at <= len(raw):
        borders.add(at)
        at += 16 + int.from_bytes(raw[at + 8 : at + 12], "little")
    for size in sorted({*range(1, len(raw), 7), *borders} - {len(raw)}):
        try:
            _, coverage = read_with_coverage(tmp_path, raw[:size])
        except DecodeError:
            assert size < 24
        else:
            damage_entries = [entry for entry in coverage.unread if entry.kind == "damaged"]
            assert bool(damage_entries) is (size not in borders), size


def test_python_callers_get_the_unread_data(tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(build_pcap([*FRAMES, *[ethernet(MACSEC, bytes(60))] * 3, ethernet(ARP, bytes(28))]))
    batches = kafkaframes.read_capture(path)
    assert batches.read_all().num_rows == CALL_COUNT
    (error,) = batches.errors
    assert str(error) == f"3 packets: ethertype 0x88e5 (MACsec) is not read (at {path})"
    assert isinstance(error.as_exception(), DecodeError)
    counted_batches = kafkaframes.scan_capture(path).where(timestamp=(None, 0)).to_batches()
    assert (list(counted_batches), len(counted_batches.errors)) == ([], 1)


def test_shares_of_a_capture_report_each_file_and_connection_once(tmp_path):
    path = tmp_path / "x.pcap"
    tls = [ethernet(IP4, one) for one in packets4(messages=TLS_MESSAGES, server_port=9093)]
    path.write_bytes(build_pcap([*FRAMES, *tls, ethernet(MACSEC, bytes(60))]))
    entries = []
    for share in range(3):
        batches = CaptureBatches([str(path)], CaptureOptions(share=share, shares=3))
        batches.read_all()
        entries += [(entry.kind, entry.packets, entry.connections) for entry in batches.coverage.unread]
    assert sorted(entries, key=str) == [("encrypted", 1, 0), ("encrypted", None, 1)]


@pytest.mark.parametrize("table", ["calls", "connections", "gaps", "packets", "records"])
def test_every_table_has_the_same_packet_counts(table, tmp_path):
    raw = build_pcap([*FRAMES, *[ethernet(MACSEC, bytes(60))] * 3])
    assert [(entry.kind, entry.packets) for entry in read_with_coverage(tmp_path, raw, table=table)[1].unread] == [
        ("encrypted", 3)
    ]


def test_one_complete_call_has_no_entry(tmp_path):
    packets = packets4(messages=[(True, build_request(1)), (False, build_response(1))])
    assert read_with_coverage(tmp_path, build_pcap([ethernet(IP4, packet) for packet in packets]))[1].entries == []


def test_mode_failfast_raises_at_unread_data(tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(build_pcap([*FRAMES, ethernet(MACSEC, bytes(60))]))
    with pytest.raises(DecodeError, match="MACsec"):
        kafkaframes.read_capture(path, on_damage="fail").read_all()
    with pytest.raises(OptionError, match="keep or fail"):
        kafkaframes.read_capture(path, on_damage="drop")
    path.write_bytes(build_pcap([*FRAMES, ethernet(ARP, bytes(28))]))
    assert kafkaframes.read_capture(path, on_damage="fail").read_all().num_rows == CALL_COUNT


@pytest.mark.parametrize("seed", range(20))
def test_every_packet_belongs_to_a_connection_or_is_counted(seed, tmp_path):
    """TCP packets, fragments, and other packets by kind add up to the number of all packets."""
    rng = random.Random(seed)
    link, packets = rng.choice(list(WRAPPINGS.values()))
    mutated_packets = []
    for _ in range(300):
        packet = bytearray(rng.choice(packets))
        for _ in range(rng.randrange(4)):
            packet[rng.randrange(min(len(packet), 80))] = rng.choice((0, 0x45, 0x60, 0x81, 0xFF, rng.randrange(256)))
        mutated_packets.append(bytes(packet[: rng.randrange(len(packet) + 1)] if rng.randrange(3) == 0 else packet))
    path = tmp_path / "x.pcap"
    path.write_bytes(build_pcap(mutated_packets, link))
    packets_read = PacketReader([str(path)])
    results = []
    add = packets_read._fragments.add
    packets_read._fragments.add = lambda packet: results.append(add(packet)) or results[-1]
    for _ in packets_read:
        pass
    packet_count = sum(entry.packets for entry in packets_read.unread if "fragment" not in entry.reason)
    datagrams = sum(result is not None for result in results)  # each one is read as a packet again
    assert packets_read.counters[layout.PACKETS] == len(mutated_packets)
    assert packets_read.counters[layout.TCP_PACKETS] + packet_count + len(results) == len(mutated_packets) + datagrams


def test_a_long_connection_without_its_start_is_unknown_and_not_another_protocol(tmp_path):
    """Without its start, a megabyte of a Produce request cannot be distinguished from other data."""
    middle = [(True, b"\x81" * 1400)] * 80
    raw = build_pcap([ethernet(IP4, one) for one in packets4(messages=middle, opening=False)])
    assert kinds(read_with_coverage(tmp_path, raw)[1].entries) == {
        ("unknown", "the protocol of the connection is not recognised")
    }
    lost_head = packets4(messages=middle)
    raw = build_pcap([ethernet(IP4, one) for one in lost_head[:3] + lost_head[4:]])
    assert kinds(read_with_coverage(tmp_path, raw)[1].entries) == {
        ("unknown", "the protocol of the connection is not recognised")
    }
    raw = build_pcap([ethernet(IP4, one) for one in packets4(messages=middle)])
    assert kinds(read_with_coverage(tmp_path, raw)[1].entries) == {("other", "another protocol over TCP")}
