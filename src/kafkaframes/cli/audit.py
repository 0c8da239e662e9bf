"""``kafkaframes audit INPUT... --target 4.0.1``: which clients and logs an upgrade of the brokers would break."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from kafkaframes import __version__
from kafkaframes.capture.files import find_files
from kafkaframes.cli.options import JSON, PAGE, TEXT, format_of, json_option, ports_in, settings_options
from kafkaframes.cli.text import say
from kafkaframes.jobs.audit import audit_text
from kafkaframes.jobs.audit.audit import Uses, audit, target_release
from kafkaframes.jobs.settings import AuditSettings
from kafkaframes.protocol.messages.registry import Apis
from kafkaframes.storage.files.atomic import open_output, reject_nested_destination


@click.command("audit")
@click.argument("paths", nargs=-1, required=True, metavar="INPUT...")
@settings_options(AuditSettings)
@click.option("-o", "--output", metavar="FILE", help="Write to a file: a page (.html), JSON (.json), else text.")
@json_option
@click.pass_context
def command(ctx: click.Context, /, paths: tuple[str, ...], output: str | None, as_json: bool, **flags: Any) -> None:
    """Audit clients and logs before an upgrade: which API versions and record formats the new release removed.

    INPUT is a capture (pcap, pcapng), a broker's request log, a directory of these, or a log directory. Several make
    one audit. Verdicts: fine, unknown, deprecated, removed; a line for each client that is not fine.

    If part of the input could not be read, the first line says what (JSON: judged and unread).

    Exit status: 0 when the upgrade breaks nothing, 3 when something is deprecated, 4 when something is removed, 5 when
    no request could be read (with --strict: or not everything), 2 when an input cannot be opened.

    Example: kafkaframes audit trace.pcap request.log --target 4.0.1
    """
    from kafkaframes.jobs.audit.uses import count_formats, count_uses
    from kafkaframes.jobs.report.traffic_page import build_audit_page

    settings, kind = AuditSettings(**flags), format_of(output, as_json, default=TEXT)
    release = target_release(settings.target)
    if output is not None:
        reject_nested_destination(Path(output), paths)
    listening = ports_in(settings.ports)
    uses, apis = Uses(), Apis(settings.specs)
    traffic = [path for path in paths if not _is_log_directory(path)]
    if traffic:
        count_uses(find_files(traffic), release, uses, ports=listening, apis=apis)
    logs = [path for path in paths if path not in traffic]
    if logs:
        count_formats(logs, uses)
    result = audit(uses, release, apis, is_strict=settings.strict)
    if kind == JSON:
        text = json.dumps(audit_text.as_json(result), indent=1)
    elif kind == PAGE:
        text = build_audit_page(result, paths=paths, version=__version__)
    else:
        text = "\n".join(audit_text.lines(result, verbose=settings.verbose))
    _write_text(text, output)
    ctx.exit(result.exit_status)


def _write_text(text: str, output: str | None) -> None:
    if output is None:
        say(text)
        return
    with open_output(output) as out:
        out.write(f"{text}\n".encode("utf-8", "backslashreplace"))


def _is_log_directory(path: str) -> bool:
    """Return whether a path is a log, not traffic: a directory with partitions, a partition, or a segment."""
    location = Path(path)
    if location.is_dir():
        return any(one.is_dir() or one.suffix in (".index", ".timeindex") for one in location.iterdir())
    return location.suffix == ".log" and location.stem.isdecimal()
