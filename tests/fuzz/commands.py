"""Run the commands on damaged logs and malformed Parquet for a minute: each ends with a result or a clear error in
limited time.

Run: python tests/fuzz/commands.py [seconds] [seed]
"""

from __future__ import annotations

import io
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.cli.test_bad_input import COMMANDS, LOGS, ONE_PROCESS
from tests.fuzz.log_files import damage
from tests.records import mutations

from kafkaframes.cli.main import cli
from kafkaframes.errors import KafkaframesError

SLOWEST_SECONDS = 60.0
NUMBERS = (-1, 0, 1, 2, 2**31 - 1, 2**31, 2**62, None)


def write_random_parquet(choose: random.Random) -> bytes:
    """Write a Parquet file with unusual columns, sometimes truncated."""
    count = choose.randrange(4)
    columns = {
        "topic": [choose.choice(("t", "", "..", "a/b", "x" * 300, None, "é")) for _ in range(count)],
        "partition": [choose.choice(NUMBERS if choose.random() < 0.4 else (0, 1)) for _ in range(count)],
        "offset": [choose.choice(NUMBERS) if choose.random() < 0.3 else number for number in range(count)],
        "timestamp": [choose.choice(NUMBERS) for _ in range(count)],
        "key": [choose.choice((b"", b"k", None)) for _ in range(count)],
        "value": [mutations.choose_bytes(choose) for _ in range(count)],
    }
    for name in list(columns):
        if choose.random() < 0.1:
            del columns[name]
        elif choose.random() < 0.1:
            columns[name] = [choose.choice((1.5, 0.0, None)) for _ in range(count)]
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    raw = bytearray(out.getvalue())
    for _ in range(choose.choice((0, 0, 1, 3))):
        raw[choose.randrange(len(raw))] = choose.randrange(256)
    return bytes(raw[: choose.randrange(len(raw) + 1)] if choose.random() < 0.1 else raw)


def write_damaged_log(choose: random.Random, folder: Path) -> None:
    """Write a log of batches with damaged contents and matching CRCs."""
    (folder / "t-0").mkdir(parents=True)
    (folder / "t-0" / f"{0:020}.log").write_bytes(mutations.choose_log(choose.randrange(2**40)))


def choose_command(choose: random.Random, folder: Path) -> tuple[str, list[object]]:
    """Choose a command, and create its input files."""
    to, log = folder / "out", folder / "log"
    if choose.random() < 0.3:
        path = folder / "a.parquet"
        path.write_bytes(write_random_parquet(choose))
        return "restore", ["restore", path, "--to", to, *ONE_PROCESS]
    if choose.random() < 0.4:
        write_damaged_log(choose, log)
    else:
        shutil.copytree(choose.choice(LOGS), log)
        for path in choose.sample(sorted(path for path in log.glob("*/*") if path.is_file()), 3):
            damage(choose, path)
    name = choose.choice(sorted(COMMANDS))
    return name, COMMANDS[name](log, to)


def main(seconds: float, seed: int) -> None:
    """Fuzz for ``seconds``."""
    deadline, run_count = time.monotonic() + seconds, 0
    while time.monotonic() < deadline:
        choose = random.Random(f"{seed}-{run_count}")
        with tempfile.TemporaryDirectory() as folder:
            name, arguments = choose_command(choose, Path(folder))
            start = time.monotonic()
            result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
            spent, error = time.monotonic() - start, result.exception
            is_expected = error is None or isinstance(error, SystemExit | KafkaframesError | OSError)
            if not is_expected or "Traceback" in result.output or spent > SLOWEST_SECONDS:
                print(f"seed {seed}, run {run_count}: {name} took {spent:.1f} s: {error!r}")
                raise error if error is not None else AssertionError(result.output[-1000:])
        run_count += 1
    print(f"{run_count} commands, each with a result or a clear error (seed {seed})")


if __name__ == "__main__":
    main(
        float(sys.argv[1]) if len(sys.argv) > 1 else 60.0,
        int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**9),
    )
