"""The jars of Spark's own Kafka connector for comparisons, downloaded once by Maven.

The newest published version of the connector is 4.2.0, which runs on Spark 4.2 and 4.3. The connector's token provider
was published only as 4.0.0, so ``spark.jars.packages`` alone cannot fetch the connector.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

COORDINATES = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)
REPOSITORY = Path.home() / ".m2" / "repository"


def find_jars() -> list[Path]:
    """Return the jars; missing jars are downloaded.

    Raises:
        LookupError: Maven is missing, or a jar cannot be fetched.
    """
    return [_jar(coordinate) for coordinate in COORDINATES]


def _jar(coordinate: str) -> Path:
    group, name, version = coordinate.split(":")
    path = REPOSITORY.joinpath(*group.split("."), name, version, f"{name}-{version}.jar")
    if path.exists():
        return path
    if shutil.which("mvn") is None:
        raise LookupError("Maven is not on the PATH, and Spark's connector cannot be fetched")
    command = ["mvn", "-q", "-B", "dependency:get", f"-Dartifact={coordinate}", "-Dtransitive=false"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if not path.exists():
        raise LookupError(f"{coordinate} cannot be fetched: {process.stdout[-300:]}")
    return path
