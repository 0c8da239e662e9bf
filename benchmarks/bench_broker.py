"""What one small Produce or Fetch costs the broker: raw frames, 8 connections with 16 in flight.

python benchmarks/bench_broker.py [seconds]
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time

from kafkaframes.connection import FrameBuffer
from kafkaframes.messages import message
from kafkaframes.messages.headers import encode_request
from kafkaframes.records.build import build_records

CONNECTIONS, IN_FLIGHT = 8, 16
BATCH = build_records({"key": [b"key"], "value": [b"v" * 100], "timestamp": [1_700_000_000_000]})


def produce_frame(version: int = 9) -> bytes:
    types = message("ProduceRequest")
    row = types.PartitionProduceData(index=0, records=BATCH)
    data = types.TopicProduceData(name="bench", partition_data=[row])
    return sized(encode_request(types(acks=-1, timeout_ms=1000, topic_data=[data]), version, client_id="bench"))


def fetch_frame(version: int = 11) -> bytes:
    types = message("FetchRequest")
    row = types.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=len(BATCH))
    topic = types.FetchTopic(topic="bench", partitions=[row])
    body = types(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=[topic])
    return sized(encode_request(body, version, client_id="bench"))


def sized(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


def cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def load(port: int, frame: bytes, seconds: float) -> int:
    deadline = time.perf_counter() + seconds

    async def one() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        frames, done, sent = FrameBuffer(), 0, 0
        writer.write(frame * IN_FLIGHT)
        sent += IN_FLIGHT
        while done < sent:
            frames.receive_data(await reader.read(1 << 16))
            came = 0
            while frames.next_frame() is not None:
                came += 1
            done += came
            if time.perf_counter() < deadline and came:
                writer.write(frame * came)
                sent += came
        writer.close()
        return done

    return sum(await asyncio.gather(*(one() for _ in range(CONNECTIONS))))


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 4.0
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "kafkaframes", "broker", "--port", "0", "--data-dir", directory]
        start = time.perf_counter()
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as broker:
            port = int(broker.stderr.readline().rsplit(":", 1)[1])
            print(f"start to listening: {time.perf_counter() - start:.2f} s")
            asyncio.run(load(port, sized(encode_request(_metadata(), 9)), 0.1))
            for name, frame in (("produce", produce_frame()), ("fetch", fetch_frame())):
                asyncio.run(load(port, frame, 0.5))
                before, begun = cpu_seconds(broker.pid), time.perf_counter()
                count = asyncio.run(load(port, frame, seconds))
                used = cpu_seconds(broker.pid) - before
                wall = time.perf_counter() - begun
                print(f"{name}: {count / used:,.0f} per CPU second of the broker, {count / wall:,.0f} per second")
            broker.terminate()


def _metadata() -> object:
    types = message("MetadataRequest")
    return types(topics=[types.MetadataRequestTopic(name="bench")])


if __name__ == "__main__":
    main()
