"""Measure how fast recorded traffic is read: packet headers, reassembly and framing, calls with and without bodies.

A capture is made of real calls, repeated on some connections: large frames in segments of 1448 bytes, or small control
calls. The table has CPU times of one process, and for comparison those of dpkt's Ethernet, IP and TCP with sorted and
joined streams, in the same run.

Run:      python benchmarks/captures.py [--megabytes 200]
Saves:    benchmarks/results/captures.md
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kafkaframes.capture.columns import CALLS_TABLE_COLUMNS
from kafkaframes.capture.container import ConversationWriter, build_file_header
from kafkaframes.capture.packets import PacketReader
from kafkaframes.capture.reader import CaptureOptions, read_capture
from kafkaframes.capture.streams import Streams
from kafkaframes.records.build import build_records

RESULTS_FILE = Path(__file__).parent / "results" / "captures.md"
DATA_FOLDER = Path(__file__).parent.parent / "tests" / "data" / "captures"
SEGMENT_BYTES = 1448
CONNECTIONS = 8
ALL_COLUMNS = tuple(column.name for column in CALLS_TABLE_COLUMNS if column.default)
COLUMNS_WITHOUT_JSON = tuple(
    name for name in ALL_COLUMNS if name not in ("requestHeader", "request", "responseHeader", "response")
)
PLAIN_COLUMNS = ("requestTime", "latencyMs", "clientId", "apiName", "apiVersion", "correlationId", "requestSizeBytes")
START_NS = 1_700_000_000_000_000_000


def load_calls(*, small: bool) -> list[tuple[bytes, bytes]]:
    """Return requests and responses to repeat."""
    rows = read_capture(
        str(DATA_FOLDER / ("mangled-loss.pcapng.zst" if small else "share-groups-broker43.pcap.zst")),
        CaptureOptions(
            columns=("apiKey", "requestBytes", "responseBytes", "requestState", "responseState"), secrets=True
        ),
    ).read_all()
    whole = [row for row in rows.to_pylist() if row["requestState"] == row["responseState"] == "whole"]
    if small:
        return [(row["requestBytes"], row["responseBytes"]) for row in whole if row["apiKey"] not in (0, 1, 18)]
    return [build_large_produce()]


def build_large_produce() -> tuple[bytes, bytes]:
    """Return a Produce request of about a megabyte, and its response."""
    from kafkaframes.protocol.messages import message
    from kafkaframes.protocol.messages.headers import encode_request, encode_response

    data = [{"name": "orders", "partitionData": [{"index": 0, "records": ""}]}]
    body = message("ProduceRequest").from_json(
        {"transactionalId": None, "acks": -1, "timeoutMs": 1000, "topicData": data}, 9
    )
    records = build_records([{"value": os.urandom(900)} for _ in range(1100)], batch_bytes=1 << 20)
    body.topic_data[0].partition_data[0].records = records
    return encode_request(body, 9, client_id="bench"), encode_response(message("ProduceResponse")(), 9)


def write_capture(path: Path, size_bytes: int, *, small: bool) -> None:
    """Write a capture."""
    calls = load_calls(small=small)
    talks = [ConversationWriter(("10.0.0.1", 40000 + n), ("10.0.0.2", 9092)) for n in range(CONNECTIONS)]
    with path.open("wb") as file:
        file.write(build_file_header("bench") + b"".join(talk.build_handshake(START_NS) for talk in talks))
        number = 0
        while file.tell() < size_bytes:
            for talk in talks:
                request, response = calls[number % len(calls)]
                number += 1
                correlation = number.to_bytes(4, "big")
                request_bytes = request[:4] + correlation + request[8:]
                for side, data in ((0, request_bytes), (1, correlation + response[4:])):
                    framed_bytes = len(data).to_bytes(4, "big") + data
                    for at in range(0, len(framed_bytes), SEGMENT_BYTES):
                        for packet in talk.build_data_packets(
                            side, framed_bytes[at : at + SEGMENT_BYTES], START_NS + number * 1000
                        ):
                            file.write(packet)


def time_second_run(work: Callable[[], int]) -> tuple[float, int]:
    """Return the CPU seconds of the second run, and its result."""
    work()
    start = time.process_time()
    answer = work()
    return time.process_time() - start, answer


def reassemble_with_dpkt(path: Path) -> int:
    """Run the minimum of a reassembly with dpkt: parse, sort by sequence number, join."""
    import dpkt

    flows: dict[tuple[bytes, bytes, int, int], list[tuple[int, bytes]]] = {}
    with path.open("rb") as file:
        for _, packet in dpkt.pcapng.Reader(file):
            ip = dpkt.ip.IP(packet)
            tcp = ip.data
            if tcp.data:
                flows.setdefault((ip.src, ip.dst, tcp.sport, tcp.dport), []).append((tcp.seq, bytes(tcp.data)))
    for segments in flows.values():
        segments.sort(key=lambda one: one[0])
        b"".join(data for _, data in segments)
    return len(flows)


def measure_capture(path: Path) -> list[tuple[str, float, str]]:
    """Return (what, MB/s, remark) for one capture."""
    from kafkaframes.jobs.analyze.proposals import ProposalSettings
    from kafkaframes.jobs.analyze.size_comparison import ComparisonTask, run_comparison_task
    from kafkaframes.jobs.analyze.traffic import TrafficTask

    name = str(path)
    megabytes = path.stat().st_size / 1e6
    ways: list[tuple[str, Callable[[], int]]] = [
        ("packet headers, file read included", lambda: sum(len(one.rows) for one in PacketReader([name]))),
        ("reassembly, framing, pairing", lambda: sum(len(one.calls) for one in Streams(PacketReader([name])))),
        ("calls, 7 columns", lambda: _rows(name, PLAIN_COLUMNS)),
        ("calls, all columns but JSON", lambda: _rows(name, COLUMNS_WITHOUT_JSON)),
        ("calls, all columns", lambda: _rows(name, ALL_COLUMNS)),
        (
            "spec propose kip-636",
            lambda: sum(
                size_totals.messages
                for group, size_totals in run_comparison_task(
                    ComparisonTask(TrafficTask((name,)), ProposalSettings("kip-636"))
                ).totals_by_group.items()
                if group.kind != "raised"
            ),
        ),
    ]
    rows = []
    for what, work in ways:
        seconds, count = time_second_run(work)
        rows.append((what, megabytes / seconds, f"{count / seconds:,.0f}/s"))
    try:
        seconds, _ = time_second_run(lambda: reassemble_with_dpkt(path))
        rows.append(("dpkt: parse, sort, join", megabytes / seconds, ""))
    except ImportError:
        pass
    return rows


def _rows(name: str, columns: tuple[str, ...]) -> int:
    return sum(one.num_rows for one in read_capture(name, CaptureOptions(columns=columns)))


def main() -> None:
    """Measure both captures and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200)
    options = parser.parse_args()
    lines = ["# Captures", "", f"One core, CPU time, {time.strftime('%Y-%m-%d')}; {options.megabytes} MB each.", ""]
    with tempfile.TemporaryDirectory() as folder:
        for small in (False, True):
            path = Path(folder) / "x.pcapng"
            write_capture(path, options.megabytes * 1_000_000, small=small)
            lines += [f"## {'Small calls' if small else 'Large frames'}", "", "| | MB/s | rows |", "|---|---|---|"]
            lines += [f"| {what} | {speed:,.0f} | {remark} |" for what, speed, remark in measure_capture(path)]
            lines.append("")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    lines.append(f"Largest resident memory of the process: {peak:,.0f} MB (dpkt holds the whole capture).")
    text = "\n".join(lines) + "\n"
    RESULTS_FILE.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
