"""Compare the conversion of a log from format 1 with gzip to format 2 with zstd with its lower bound: decompress, then
compress.

Both sides do the same batches in one run, in CPU seconds of one process, the best of several rounds. The bound
decompresses each wrapper and compresses each new batch's records, and does nothing else: it computes no CRC, parses no
record and accesses no file.

    python benchmarks/convert.py [--mebibytes 64] [--repeats 5] [--case 0]
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from kafkaframes.jobs.convert.job import convert
from kafkaframes.jobs.settings import ConvertSettings
from kafkaframes.records.build import build_records
from kafkaframes.records.codecs import Codec, compress, decompress
from kafkaframes.records.decode import decode_batches
from kafkaframes.records.layout import BATCH_V2, MESSAGE_V1
from kafkaframes.records.scan import as_array, scan_all

CASES = (
    (1, Codec.GZIP, Codec.ZSTD),
    (1, Codec.LZ4, Codec.ZSTD),
    (1, Codec.SNAPPY, Codec.LZ4),
    (2, Codec.GZIP, Codec.ZSTD),
)


def build_segment(mebibytes: int, magic: int, codec: Codec) -> bytes:
    """Return batches of 16 KiB with JSON-like records, by MiB of values."""
    chance = random.Random(7)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(3, 9))) for _ in range(2000)]
    count = mebibytes * (1 << 20) // 400
    values = [
        f'{{"id":{n},"user":"{chance.choice(words)}","at":{1_700_000_000_000 + n * 37},'
        f'"text":"{" ".join(chance.choices(words, k=48))}"}}'.encode()
        for n in range(count)
    ]
    keys = [b"%d" % chance.randrange(100_000) for _ in range(count)]
    stamps = [1_700_000_000_000 + n * 37 for n in range(count)]
    return build_records({"timestamp": stamps, "key": keys, "value": values}, record_format=magic, codec=codec)


def time_work(work: Callable[[], object]) -> float:
    """Return the CPU seconds of one round."""
    start = time.process_time()
    work()
    return time.process_time() - start


def list_payloads(raw: bytes) -> tuple[list[tuple[int, int, bytes]], list[bytes]]:
    """Return each batch's format, codec and compressed bytes; and each batch's decompressed records."""
    data = as_array(raw)
    batches = scan_all(data)
    decoded_batches = decode_batches(data, batches)
    ends, starts = decoded_batches.sections.ends.tolist(), decoded_batches.sections.starts.tolist()
    plain = [decoded_batches.sections.buf[start:end].tobytes() for start, end in zip(starts, ends, strict=True)]
    payload_list = []
    for row, (magic, attributes, position, size) in enumerate(
        zip(*(batches.column(name).tolist() for name in ("magic", "attributes", "position", "size")), strict=True)
    ):
        whole = data[position : position + size].data
        if magic < 2:
            start = MESSAGE_V1.size + 8  # no key, and the value's length
            payload_list.append((magic, attributes & 7, bytes(whole[start:])))
        else:
            payload_list.append((magic, attributes & 7, bytes(whole[BATCH_V2.size :])))
        assert decompress(*payload_list[-1][1:], magic=magic).data == plain[row]
    return payload_list, plain


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mebibytes", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--case", type=int, action="append", choices=range(len(CASES)), help="by default all")
    options = parser.parse_args()
    print("| from | to | uncompressed MB/s | bound MB/s | of the bound |\n|---|---|---|---|---|")
    for magic, codec, target in (CASES[number] for number in options.case or range(len(CASES))):
        raw = build_segment(options.mebibytes, magic, codec)
        size, whole, bound_s = measure_conversion(raw, target, options.repeats)
        print(
            f"| v{magic} {codec.name.lower()} | v2 {target.name.lower()} | {size / whole / 1e6:.0f} "
            f"| {size / bound_s / 1e6:.0f} | {bound_s / whole:.0%} |",
            flush=True,
        )


def measure_conversion(raw: bytes, target: Codec, repeats: int) -> tuple[int, float, float]:
    """Return the uncompressed bytes, the seconds of a conversion, and those of its bound."""
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        (top / "in-0").mkdir()
        (top / "in-0" / f"{0:020}.log").write_bytes(raw)
        settings = ConvertSettings(record_format=2, codec=target.name.lower())
        convert(str(top / "in-0"), top / "out", settings)
        compressed_batches, plain = list_payloads(raw)
        _, new_plain = list_payloads((top / "out" / f"{0:020}.log").read_bytes())
        rounds = []
        for number in range(repeats):  # in turn, because the machine's speed changes
            whole = time_work(partial(convert, str(top / "in-0"), top / f"out-{number}", settings))
            bound_s = time_work(
                lambda: [decompress(codec, piece, magic=magic) for magic, codec, piece in compressed_batches]
            )
            bound_s += time_work(lambda: [compress(target, piece) for piece in new_plain])
            rounds.append((whole, bound_s))
    whole, bound_s = (min(one) for one in zip(*rounds, strict=True))
    return sum(map(len, plain)), whole, bound_s


if __name__ == "__main__":
    main()
