"""Run ``dump-log`` on damaged segments and indexes for a minute: it prints lines or a report quickly, without an
exception.

Run: python tests/fuzz/dump_log.py [seconds] [seed]
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

from kafkaframes.jobs.dump.decoders import DECODERS
from kafkaframes.jobs.dump.jsonl import dump_json_lines
from kafkaframes.jobs.dump.styles import STYLES, TextOptions
from kafkaframes.jobs.dump.text import dump_text

DATA = Path(__file__).parents[1] / "data" / "logs"
KINDS = (".log", ".index", ".timeindex", ".snapshot", ".txnindex", ".checkpoint")
SLOWEST_SECONDS = 10.0


def damage(choose: random.Random, raw: bytes) -> bytes:
    """Flip some bytes, truncate the file, or append bytes."""
    changed_bytes = bytearray(raw)
    for _ in range(choose.choice([0, 1, 1, 2, 8]) if changed_bytes else 0):
        changed_bytes[choose.randrange(len(changed_bytes))] = choose.randrange(256)
    del changed_bytes[choose.choice([len(changed_bytes), choose.randrange(len(changed_bytes) + 1)]) :]
    return bytes(changed_bytes) + choose.choice([b"", b"", bytes(40), choose.randbytes(30)])


def main(seconds: float, seed: int) -> None:
    choose = random.Random(seed)
    files = sorted(path for path in DATA.rglob("0*") if path.suffix in KINDS and path.stat().st_size < 1 << 20)
    deadline, run_count = time.monotonic() + seconds, 0
    with tempfile.TemporaryDirectory() as directory:
        while time.monotonic() < deadline:
            chosen_file = choose.choice(files)
            folder = Path(directory) / f"{chosen_file.parent.name.partition('.')[0]}-{run_count}"
            folder.mkdir()
            for path in chosen_file.parent.glob(f"{chosen_file.stem}.*"):
                (folder / path.name).write_bytes(damage(choose, path.read_bytes()))
            options = TextOptions(
                style=choose.choice(list(STYLES)),
                print_data_log=True,
                decoder=choose.choice(["", *DECODERS]),
                index_sanity_check=choose.random() < 0.2,
            )
            began = time.monotonic()
            for path in folder.iterdir():
                b"".join(dump_text(str(path), options))
            b"".join(dump_json_lines([str(path) for path in folder.iterdir() if path.suffix == ".log"]))
            if time.monotonic() - began > SLOWEST_SECONDS:
                raise SystemExit(f"seed {seed}, case {run_count}: {chosen_file} took {time.monotonic() - began:.1f} s")
            run_count += 1
    print(f"{run_count} damaged segments with their indexes, each printed as lines or a report (seed {seed})")


if __name__ == "__main__":
    main(
        float(sys.argv[1]) if len(sys.argv) > 1 else 60.0,
        int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(2**32),
    )
