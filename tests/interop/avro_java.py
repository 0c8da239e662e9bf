"""Compare Avro schema resolution with Avro's Java library from PySpark's jars.

Run python -m tests.interop.avro_java to write the recorded verdicts of ``tests/data/avro`` again.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.scan.values.avro_pairs import PairMaker, SchemaPair

SOURCE = Path(__file__).parent / "java" / "avro" / "ResolveAvro.java"
RECORDED_VERDICTS = Path(__file__).parents[1] / "data" / "avro" / "verdicts.jsonl.gz"
RECORDED_SEED, RECORDED_PAIRS = 38, 400


def jars() -> list[Path]:
    """Return the jars of Avro and its dependencies; empty without PySpark."""
    spec = importlib.util.find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec is not None and spec.origin else Path("/nowhere")
    names = (
        "avro-1*",
        "jackson-core-2*",
        "jackson-databind-2*",
        "jackson-annotations-2*",
        "slf4j-api*",
        "commons-compress*",
    )
    return [path for name in names for path in folder.glob(f"{name}.jar")]


def resolve(pairs: Sequence[SchemaPair], *, timeout: float = 500) -> list[list[dict[str, Any]]]:
    """Return Java's verdicts on each pair's values."""
    lines = [
        json.dumps({"writer": pair.writer, "reader": pair.reader, "values": [value.hex() for value in pair.values]})
        for pair in pairs
    ]
    classpath = ":".join(map(str, jars()))
    process = subprocess.run(
        ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", classpath, str(SOURCE)],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    if process.returncode:
        raise AssertionError(f"java: {process.stderr[-2000:]}")
    return [json.loads(line) for line in process.stdout.splitlines()]


def record_verdicts() -> None:
    """Write Java's verdicts to the file of recorded verdicts."""
    pairs = PairMaker(RECORDED_SEED).pairs(RECORDED_PAIRS)
    lines = [
        json.dumps([pair.writer, pair.reader, [value.hex() for value in pair.values], verdicts], sort_keys=True)
        for pair, verdicts in zip(pairs, resolve(pairs), strict=True)
    ]
    RECORDED_VERDICTS.parent.mkdir(exist_ok=True)
    RECORDED_VERDICTS.write_bytes(gzip.compress("\n".join(lines).encode(), 9, mtime=0))


if __name__ == "__main__":
    record_verdicts()
