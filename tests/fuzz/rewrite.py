"""Rewrite random and damaged segments for a minute: every record is kept, or the error gives the reason.

Run: python tests/fuzz/rewrite.py [seconds] [seed]
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.records import mutations

from kafkaframes import read_records
from kafkaframes.errors import EncodeError, LogDirError
from kafkaframes.jobs.convert.job import convert
from kafkaframes.jobs.settings import ConvertSettings, RecompressSettings, RewriteSettings
from kafkaframes.records.layout import CODECS

COLUMNS = ["offset", "timestamp", "key", "value"]


def choose_settings(choose: random.Random) -> RewriteSettings:
    """Choose a format, a codec and the treatment of damage."""
    magic = choose.choice([2, 2, 2, None, None, 1, 0])
    codec = choose.choice([None, *(name for name in CODECS if name != "zstd" or magic in (None, 2))])
    level = choose.choice([None, None, 1, 6]) if codec in ("gzip", "lz4", "zstd") else None
    mode = choose.choice(("keep",) * 4 + ("fail",))
    if magic is None:
        return RecompressSettings(codec=codec or "none", level=level, on_damage=mode)
    return ConvertSettings(record_format=magic, codec=codec, level=level, on_loss="drop", on_damage=mode)


def rewrite_segment(folder: Path, data: bytes, settings: RewriteSettings) -> bool:
    """Rewrite a segment; return whether that succeeded, and stop if a record has changed."""
    source = folder / "t-0" / f"{0:020}.log"
    source.parent.mkdir()
    source.write_bytes(data)
    try:
        convert(str(source.parent), folder / "out", settings)
    except (LogDirError, EncodeError):
        assert not (folder / "out").exists()
        return False
    if settings.record_format in (None, 2) and settings.on_damage == "fail":
        before, after = (
            pa.Table.from_batches(read_records(path.read_bytes(), columns=COLUMNS, on_damage="fail"))
            for path in (source, folder / "out" / source.name)
        )
        if before != after:
            raise SystemExit(f"{settings}: {before.num_rows} records became {after.num_rows} records, or other ones")
    return True


def main(seconds: float, seed: int) -> None:
    """Rewrite segments for ``seconds``."""
    choose, ends, rewritten_count, run_count = random.Random(seed), time.monotonic() + seconds, 0, 0
    while time.monotonic() < ends:
        with tempfile.TemporaryDirectory() as folder:
            run_count += 1
            rewritten_count += rewrite_segment(
                Path(folder), mutations.choose_log(choose.randrange(2**40)), choose_settings(choose)
            )
    print(f"rewrite: {run_count} segments, {rewritten_count} rewritten, seed {seed}")


if __name__ == "__main__":
    numbers = [float(text) for text in sys.argv[1:3]]
    main(numbers[0] if numbers else 60.0, int(numbers[1]) if len(numbers) > 1 else random.randrange(1 << 30))
