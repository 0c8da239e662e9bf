"""With PySpark 4.0, the oldest supported version, ``kafka-log`` returns as many records of the example logs as Kafka's
classes.

PySpark 4.0 is installed once under ``~/.cache/kafkaframes/pyspark-4.0`` and precedes the newer one on the child
process's path. All other packages are those of the tests' environment.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.interop.conftest import CACHE, ROOT

LOGS = ROOT / "examples" / "logs"
PYSPARK_FOLDER = CACHE / "pyspark-4.0"
READ_SCRIPT = """
import json, sys
import pyspark
import kafkaframes

assert pyspark.__version__.startswith("4.0."), pyspark.__version__
spark = kafkaframes.spark.session("interop", master="local[2]", memory="512m")
kafkaframes.spark.register(spark)  # where Spark found the source by itself, this must not be an error
frame = spark.read.format("kafka-log").option("includeHeaders", "true").load(sys.argv[1])
rows = frame.groupBy("topic", "partition").count().collect()
print("COUNTS " + json.dumps({f"{row.topic}-{row.partition}": row["count"] for row in rows}))
newest = frame.selectExpr("max(timestamp)", "sum(length(value))", "sum(size(headers))").collect()[0]
print(newest)
spark.stop()
"""


@pytest.fixture(scope="module")
def pyspark40() -> Path:
    if not (PYSPARK_FOLDER / "pyspark").exists():
        install_command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--target",
            str(PYSPARK_FOLDER),
            "pyspark==4.0.*",
        ]
        install_result = subprocess.run(install_command, capture_output=True, text=True, timeout=900, check=False)
        if install_result.returncode:
            pytest.skip(f"PySpark 4.0 cannot be installed: {install_result.stderr[-300:]}")
    return PYSPARK_FOLDER


def count_with_kafka(log: str) -> dict[str, int]:
    """Count the records that are not control records, by topic and partition, with Kafka's classes."""
    counts: Counter[str] = Counter()
    batch: dict[str, object] = {}
    with gzip.open(LOGS / "truth" / f"{log}.records.jsonl.gz", "rt") as lines:
        for line in map(json.loads, lines):
            if line["type"] == "batch":
                batch = line
            elif line["type"] == "record" and not batch["control"]:
                counts[f"{batch['topic']}-{batch['partition']}"] += 1
    return dict(counts)


@pytest.mark.slow
@pytest.mark.parametrize("log", ["kafka-4.3", "kafka-2.8-format-1"])
def test_pyspark_40_reads_the_example_logs(pyspark40: Path, log: str) -> None:
    environment = os.environ | {"PYTHONPATH": f"{pyspark40}{os.pathsep}{ROOT / 'src'}"}
    command = [sys.executable, "-c", READ_SCRIPT, str(LOGS / log)]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert process.returncode == 0, process.stderr[-4000:]
    counts = next(line.removeprefix("COUNTS ") for line in process.stdout.splitlines() if line.startswith("COUNTS "))
    counts_by_topic = {name: count for name, count in json.loads(counts).items() if not name.startswith("__")}
    expected_counts = {name: count for name, count in count_with_kafka(log).items() if not name.startswith("__")}
    assert counts_by_topic == expected_counts
