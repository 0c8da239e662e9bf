"""Read batches with damaged contents and matching CRCs for a minute: the verdict is the same for all columns.

The record bytes of valid batches are changed and the batches get new CRCs, some hundred at a time. Each log and each
array of the reader ends at a protected page. The requested columns, the chunk size, the budget and the bounds change
from read to read. All results must agree with those for all columns on the general path.

Run: python tests/fuzz/records_sealed.py [seconds] [seed]
"""

from __future__ import annotations

import random
import struct
import sys
import time
import zlib
from pathlib import Path

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.records import mutations
from tests.records.guarded import GuardedBlock, GuardedMemory
from tests.records.test_column_subsets import COLUMN_SUBSETS, OTHER_COLUMNS

from kafkaframes.records.codecs import compress, decompress
from kafkaframes.records.columns import DROP, KEEP, ReadOptions, RecordReader
from kafkaframes.records.layout import BATCH_V2, CODEC_MASK
from kafkaframes.records.makers import COLUMNS
from kafkaframes.records.scan import MemorySource, as_array
from kafkaframes.wire.checksum import crc32c

EDGE_BYTES = (0, 1, 2, 3, 0x3F, 0x40, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
BATCHES, READS = 300, 5
CHUNKS, BUDGETS = (20_000, 2 << 20, 2 << 20, 2 << 20), (20_000, 256 << 20)
_ATTRIBUTES, _CRC = BATCH_V2.end_of("attributes") - 1, BATCH_V2.position_of("crc")


def change_section(choose: random.Random, section: bytearray) -> None:
    """Change one to three bytes of a records section."""
    for _ in range(choose.choice((0, 1, 1, 2, 3))):
        if section:
            place = choose.randrange(len(section))
            step = choose.choice((-2, -1, 1, 2))
            section[place] = choose.choice(EDGE_BYTES) if choose.random() < 0.6 else (section[place] + step) & 0xFF


def change_batch(choose: random.Random, batch: bytes) -> bytes:
    """Change the records of a batch, mostly the content of compressed ones, and compute its CRC again."""
    if batch[16] != 2:
        out = bytearray(batch)
        section = out[18:]
        change_section(choose, section)
        out[18:] = section
        struct.pack_into(">I", out, 12, zlib.crc32(bytes(out[16:])))
        return bytes(out)
    section, codec = bytearray(batch[BATCH_V2.size :]), batch[_ATTRIBUTES] & CODEC_MASK
    if codec and choose.random() < 0.8:
        section = bytearray(decompress(codec, bytes(section), magic=2).data)
        change_section(choose, section)
        section = bytearray(compress(codec, bytes(section)))
    else:
        change_section(choose, section)
    out = bytearray(batch[: BATCH_V2.size]) + section
    struct.pack_into(">i", out, 8, len(out) - 12)
    struct.pack_into(">I", out, _CRC, crc32c(bytes(out[_CRC + 4 :])))
    return bytes(out)


def create_batches(choose: random.Random) -> list[bytes]:
    """Create valid batches, and some invalid ones; half of them uncompressed."""
    batches = []
    while len(batches) < 200:
        raw = mutations.choose_batch_v2(choose, len(batches) * 100, damage=0.02)
        if raw[_ATTRIBUTES] & CODEC_MASK == 0 or choose.random() < 0.3:
            batches.append(raw)
    return batches + [mutations.choose_messages(choose, number * 100) for number in range(12)]


def read(data: object, columns: tuple[str, ...], memory: GuardedMemory, **options: object) -> tuple[object, ...]:
    """Read the columns in guarded memory: a table, the damage, and the end of the source."""
    read_options = ReadOptions(columns=columns, **options)  # type: ignore[arg-type]
    reader = RecordReader(MemorySource(data), read_options, memory=memory)  # type: ignore[arg-type]
    return pa.Table.from_batches(list(reader), reader.schema), reader.errors, reader.end


def check_log(choose: random.Random, pool: list[bytes], memory: GuardedMemory) -> None:
    """Compare the results for one log."""
    raw = b"".join(change_batch(choose, choose.choice(pool)) for _ in range(BATCHES))
    data = GuardedBlock(len(raw)).at_end(len(raw))
    data[:] = as_array(raw)
    first, end = choose.choice(((None, None), (None, None), (300, None), (None, 9000)))
    mode = choose.choice((KEEP, KEEP, DROP))
    options = {"on_damage": mode, "first_offset": first, "end_offset": end}
    table, errors, stop = read(data, tuple(COLUMNS), memory, **options)
    for _ in range(READS):
        columns = choose.choice(COLUMN_SUBSETS) if choose.random() < 0.8 else choose.choice(OTHER_COLUMNS)
        more = {"chunk_bytes": choose.choice(CHUNKS), "budget_bytes": choose.choice(BUDGETS)}
        table_found, *rest = read(data, columns, memory, **options, **more)
        try:
            assert rest == [errors, stop]
            assert table_found.equals(table.select(columns))  # type: ignore[attr-defined]
        except AssertionError:
            print(f"columns {columns}, {options}, {more}: {raw.hex()}")
            raise


def main(seconds: float, seed: int) -> None:
    """Fuzz for ``seconds``."""
    choose, memory = random.Random(seed), GuardedMemory()
    deadline, run_count = time.monotonic() + seconds, 0
    pool = create_batches(choose)
    while time.monotonic() < deadline:
        check_log(choose, pool, memory)
        run_count += 1
        if run_count % 200 == 0:
            pool = create_batches(choose)
    print(f"{run_count * BATCHES} batches in {run_count} logs, with the same verdict for all columns (seed {seed})")


if __name__ == "__main__":
    main(
        float(sys.argv[1]) if len(sys.argv) > 1 else 60.0,
        int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**9),
    )
