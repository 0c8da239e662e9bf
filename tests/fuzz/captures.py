"""Read damaged captures for a while: the result is rows, reported gaps or one clear error, never a crash or a hang.

Run: python tests/fuzz/captures.py [--seconds 60] [--seed 1]

Changes anywhere affect the container (pcap, pcapng), packets (link layers, IP, TCP), streams and frames.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

from kafkaframes.capture.files import open_bytes  # noqa: E402
from kafkaframes.capture.reader import CaptureOptions, read_capture  # noqa: E402
from kafkaframes.errors import KafkaframesError  # noqa: E402

CAPTURES = sorted((ROOT / "tests" / "data" / "captures").glob("*.pcap*"))
MAX_CAPTURE_BYTES = 60_000
TABLES = ("calls", "connections", "gaps", "packets", "records")


def read_unpacked(path: Path) -> bytes:
    with open_bytes(str(path)) as file:
        return file.read(MAX_CAPTURE_BYTES)


def damage(raw: bytearray, random_: random.Random) -> bytes:
    """Change, remove, repeat or insert a few bytes. Changed numbers become large, negative or 0."""
    for _ in range(random_.randrange(1, 8)):
        place = random_.randrange(len(raw))
        mutation = random_.randrange(5)
        if mutation == 0:
            raw[place] = random_.choice((0, 1, 0x7F, 0x80, 0xFF, random_.randrange(256)))
        elif mutation == 1:
            raw[place : place + 4] = random_.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", bytes(4), b"\0\0\0\x04"))
        elif mutation == 2:
            del raw[place : place + random_.randrange(1, 60)]
        elif mutation == 3:
            raw[place:place] = raw[max(place - 80, 0) : place]
        else:
            raw[place:place] = random_.randbytes(random_.randrange(1, 9))
    return bytes(raw[: random_.randrange(len(raw) + 1)] if random_.randrange(5) == 0 else raw)


def check(raw: bytes, random_: random.Random, folder: Path) -> None:
    """Read a capture as each table, with a random time window. The result must be rows or an error of this package."""
    path = folder / "x.pcap"
    path.write_bytes(raw)
    window = random_.choice((300, 5000, 1 << 20))
    ports = random_.choice(((), (19500, 19510, 19512)))
    try:
        for table in TABLES:
            read_capture(
                str(path), CaptureOptions(table=table, window_bytes=window, ports=ports)
            ).read_all().to_pylist()
    except KafkaframesError as error:
        if str(path) not in str(error):
            raise AssertionError(f"an error that does not name the file: {error}") from error


def main() -> None:
    """Fuzz for the given number of seconds. After a failure, print the seed and the run, and keep the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random_ = random.Random(options.seed)
    originals = [read_unpacked(path) for path in CAPTURES]
    stop, runs, slowest = time.monotonic() + options.seconds, 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < stop:
            raw = damage(bytearray(random_.choice(originals)), random_)
            start_s = time.monotonic()
            try:
                check(raw, random_, Path(folder))
            except BaseException:
                Path("failed.pcap").write_bytes(raw)
                print(f"seed {options.seed}, run {runs}: kept as failed.pcap")
                raise
            runs += 1
            slowest = max(slowest, time.monotonic() - start_s)
    print(f"{runs} damaged captures, the slowest took {slowest:.2f} s")


if __name__ == "__main__":
    main()
