"""What ``audit`` does: count what clients and logs use, and report how it fits the new release."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.compute as pc

from kafkaframes import __version__
from kafkaframes.capture.files import find_files
from kafkaframes.capture.streams import ports_of
from kafkaframes.cli.options import JSON, PAGE
from kafkaframes.cli.text import say
from kafkaframes.errors import OptionError
from kafkaframes.jobs.audit.audit import FormatUse, Uses, audit, target_release
from kafkaframes.jobs.audit.audit_text import as_json, lines
from kafkaframes.jobs.audit.uses import count_uses
from kafkaframes.jobs.report.traffic_page import audit_page
from kafkaframes.jobs.settings import AuditSettings
from kafkaframes.protocol.messages.registry import Apis
from kafkaframes.scan.functions import read_batches
from kafkaframes.storage.files.atomic import named_file, refuse_inside
from kafkaframes.storage.log.discover import discover


def run(paths: tuple[str, ...], settings: AuditSettings, *, kind: str, output: str | None) -> int:
    """Audit and write the verdicts; return the exit status."""
    release = target_release(settings.target)
    if output is not None:
        refuse_inside(Path(output), paths)
    listening = _ports(settings.ports)
    uses, apis = Uses(), Apis(settings.specs)
    traffic = [path for path in paths if not _is_log_directory(path)]
    if traffic:
        count_uses(find_files(traffic), release, uses, ports=listening, apis=apis)
    for path in paths:
        if path not in traffic:
            _count_disk(path, uses)
    result = audit(uses, release, apis)
    if kind == JSON:
        text = json.dumps(as_json(result), indent=1)
    elif kind == PAGE:
        text = audit_page(result, paths=paths, version=__version__)
    else:
        text = "\n".join(lines(result, verbose=settings.verbose))
    _write(text, output)
    return result.exit_status


def _ports(text: str) -> tuple[int, ...]:
    try:
        return ports_of(text) if text else ()
    except ValueError:
        raise OptionError(f"`ports` {text}: must be numbers and ranges, 9092,9094-9096") from None


def _write(text: str, output: str | None) -> None:
    if output is None:
        say(text)
        return
    with named_file(output) as out:
        out.write(f"{text}\n".encode("utf-8", "backslashreplace"))


def _is_log_directory(path: str) -> bool:
    """Tell a log from traffic: a directory with partitions, a partition, a segment."""
    location = Path(path)
    if location.is_dir():
        return any(one.is_dir() or one.suffix in (".index", ".timeindex") for one in location.iterdir())
    return location.suffix == ".log" and location.stem.isdecimal()


def _count_disk(path: str, uses: Uses) -> None:
    """Count the batches and messages of a log by topic and format."""
    for directory in discover([path]):
        for partition in directory.partitions:
            for segment in partition.segments:
                table = read_batches(segment.path)
                for row in pc.value_counts(table.column("magic")).to_pylist():
                    use = FormatUse(None, "disk", row["values"], partition.topic)
                    uses.add_format(use, row["counts"], None, None)
