"""Create ``spec/releases.json``, the API versions that each Kafka release advertises and accepts.

``python -m tests.interop.releases [--specs FOLDER]`` queries the published kafka-clients of each release (Maven fetches
the jars, Java 17 runs ``java/ApiRanges.java`` with each) and writes the table. With ``--specs``, a folder of message
specs of releases (``2.2.2.zip``, ...), the command first compares both. ``test_releases.py`` recreates some rows.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kafkaframes.protocol.spec.load import PUBLISHED_DIALECT, load_message
from kafkaframes.protocol.spec.releases import RELEASES_FILE, find_release

#: The last patch of each minor release whose specs are available, and 4.0.0, whose JoinGroup differs from 4.0.1's
#: (KAFKA-19444).
RELEASES = (
    "0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.1.1", "0.10.2.2", "0.11.0.3", "1.0.2", "1.1.1", "2.0.1", "2.1.1", "2.2.2",
    "2.3.1", "2.4.1", "2.5.1", "2.6.3", "2.7.2", "2.8.2", "3.0.2", "3.1.2", "3.2.3", "3.3.2", "3.4.1", "3.5.2", "3.6.2",
    "3.7.2", "3.8.1", "3.9.1", "4.0.0", "4.0.1", "4.1.1", "4.2.0", "4.3.1", "4.4.0",
)  # fmt: skip
#: JoinGroup and Heartbeat are in the client's tables of 0.8.2, but its broker does not serve them (RequestKeys: 0-10).
NOT_SERVED = {("0.8.2.2", 11), ("0.8.2.2", 12)}
JAVA_SOURCES = Path(__file__).parent / "java"
_REPOSITORY = Path.home() / ".m2" / "repository"
SLF4J_COORDINATE = "org.slf4j:slf4j-api:1.7.36"


class ApiRow(NamedTuple):
    """The versions of an API in a release; ``deprecated`` and ``advertised`` are empty if equal to the accepted
    ones.
    """

    key: int
    accepted: str
    advertised: str
    deprecated: str
    listeners: str


def fetch(artifact: str) -> Path:
    """Return the jar of ``group:name:version``; Maven downloads it if the local repository lacks it."""
    group, name, version = artifact.split(":")
    jar = _REPOSITORY / group.replace(".", "/") / name / version / f"{name}-{version}.jar"
    if not jar.is_file():
        command = ["mvn", "-q", "-B", "dependency:get", f"-Dartifact={artifact}", "-Dtransitive=false"]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
    return jar


def read_versions(version: str) -> list[ApiRow]:
    """Return the versions of each API in the kafka-clients of one release."""
    jars = [fetch(f"org.apache.kafka:kafka-clients:{version}"), fetch(SLF4J_COORDINATE)]
    command = ["java", "-cp", ":".join(map(str, jars)), str(JAVA_SOURCES / "ApiRanges.java")]
    process = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    rows = [_row(line.split(" ")) for line in process.stdout.splitlines()]
    return [row for row in rows if (version, row.key) not in NOT_SERVED]


def _row(parts: list[str]) -> ApiRow:
    key, _, accepted_range, advertised_range, deprecated_range, listeners = parts
    return ApiRow(
        int(key),
        accepted_range,
        "" if advertised_range == accepted_range else advertised_range,
        deprecated_range.strip("-"),
        listeners.lower(),
    )


def build_table(rows: dict[str, list[ApiRow]]) -> dict[str, object]:
    """Return the table: for each API, the releases in which its entry changed, with null where the API does not
    exist.
    """
    history: dict[int, list[list[object]]] = {}
    for key in sorted({row.key for api_row in rows.values() for row in api_row}):
        last_range: object = None
        for version, api_row in rows.items():
            row = next((row for row in api_row if row.key == key), None)
            now = None if row is None else list(row[1:])
            if now != last_range:
                history.setdefault(key, []).append([version, now])
            last_range = now
    return {"releases": list(rows), "apis": {str(key): changes for key, changes in history.items()}}


def write(rows: dict[str, list[ApiRow]], file: Path = RELEASES_FILE) -> None:
    """Write the table, one line per change."""
    releases = build_table(rows)
    apis = releases["apis"]
    assert isinstance(apis, dict)
    lines = []
    for key, changes in apis.items():
        changes_text = ",\n    ".join(json.dumps(change) for change in changes)
        lines.append(f'  "{key}": [\n    {changes_text}\n  ]')
    body = ",\n".join(lines)
    file.write_text(f'{{"releases": {json.dumps(releases["releases"])},\n"apis": {{\n{body}\n}}}}\n')


def differences(version: str, rows: Sequence[ApiRow], specs: Path) -> Iterator[str]:
    """Yield the APIs whose range in a release's published specs differs from that in its classes."""
    accepted_ranges = {row.key: row.accepted for row in rows}
    with zipfile.ZipFile(specs / f"{version}.zip") as archive:
        for name in archive.namelist():
            if not name.endswith("Request.json"):
                continue
            spec = load_message(archive.read(name), file=name, dialect=PUBLISHED_DIALECT)
            stable = f"{spec.valid_versions.lowest}-{spec.latest_stable_version}"
            ours = accepted_ranges.get(spec.api_key if spec.api_key is not None else -1)
            if ours is not None and ours != stable and spec.latest_stable_version >= spec.valid_versions.lowest:
                yield f"{version} {spec.name}: {stable} in the spec, {ours} in the classes"


def main(arguments: Iterable[str] | None = None) -> None:
    """Create the table."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--specs", type=Path)
    options = parser.parse_args(arguments)
    rows = {version: read_versions(version) for version in RELEASES}
    for version in RELEASES if options.specs else ():
        if (options.specs / f"{version}.zip").is_file():
            for line in differences(version, rows[version], options.specs):
                print(line)
    write(rows)
    find_release.cache_clear()


if __name__ == "__main__":
    main()
