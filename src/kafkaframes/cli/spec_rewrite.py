"""``kafkaframes spec rewrite``, ``new-kip``: write the specs of a proposal: KIP-636, or the user's own."""

from __future__ import annotations

import csv
import json
import runpy
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click

from kafkaframes.errors import OptionError, format_path_error
from kafkaframes.errors.words import count_text
from kafkaframes.protocol import spec_functions
from kafkaframes.protocol.spec.changes import SpecChange, most_severe
from kafkaframes.protocol.spec.drafts import Kip
from kafkaframes.protocol.spec.evolution import compare_sets
from kafkaframes.protocol.spec.kip_636 import COUNTS_OF_OCTOBER_2024, RewriteResult, count_changes
from kafkaframes.protocol.spec.model import MessageSpec
from kafkaframes.protocol.spec_functions import change_specs


@click.command("new-kip")
@click.argument("file", metavar="FILE.py")
@click.option("--from", "source", metavar="DIR|ZIP|JAR", help="Specs to change  [default: the catalog's].")
@click.option("--to", "target", type=click.Path(file_okay=False, path_type=Path), required=True, help="A new folder.")
def write_proposal_specs(file: str, source: str | None, target: Path) -> None:
    """Write the message specs of your own proposal, from a few lines of Python.

    FILE.py has a function rewrite(kip), which selects and changes fields:

    \b
      def rewrite(kip):
          for field in kip.fields("*Response.*ErrorCode", type="int16"):
              field.tag()
          kip.add("MetadataResponse.Topics.Owner", "string", nullable=True)
          for field in kip.fields("FetchRequest.RackId"):
              field.drop()
          kip.bump("Heartbeat")

    Each changed API gets a new version of its request and response; older versions keep their layout. The file is
    executed, so only use files that you trust. Then: kafkaframes spec propose NEW CAPTURE.
    """
    result = change_specs(_load_change_function(file), target, source=source)
    for name in result.changed_names:
        click.echo(
            f"{name} {result.before[name].valid_versions.highest} -> {result.after[name].valid_versions.highest}"
        )
    findings = result.check()
    for line in _describe_breaking_changes(findings):
        click.echo(line)
    click.echo(
        f"{most_severe(findings)} (spec check): {count_text(len(result.changed_names), 'message')} "
        f"changed; {count_text(len(result.after), 'spec')} in {target}"
    )


def _load_change_function(file: str) -> Callable[[Kip], object]:
    """Return the function ``rewrite`` of a Python file."""
    try:
        function = runpy.run_path(file).get("rewrite")
    except OSError as error:
        raise OptionError(format_path_error(error, file)) from None
    if not callable(function):
        raise OptionError(f"{file}: the file does not define a function rewrite(kip)")
    return function  # type: ignore[no-any-return]


def _describe_breaking_changes(findings: Iterable[SpecChange]) -> Iterator[str]:
    """Yield a line for each breaking change."""
    for finding in findings:
        if finding.verdict == "breaking":
            yield f"breaking: {finding.message}.{finding.where}: {finding.text} ({finding.rule.name})"


_RESULT_COLUMNS: Final = (
    "api_key",
    "message",
    "field",
    "kind",
    "tag",
    "tagged_versions",
    "default",
    "arrays",
    "outcome",
)


@click.command("rewrite")
@click.argument("proposal", type=click.Choice(["kip-636"]))
@click.option("--from", "source", metavar="DIR|ZIP|JAR", help="Specs to rewrite  [default: the catalog's].")
@click.option("--to", "target", type=click.Path(file_okay=False, path_type=Path), required=True, help="A new folder.")
@click.option(
    "--suffix",
    is_flag=True,
    help="Also tag fields whose names end in ErrorCode or ErrorMessage (PartitionErrorCode).",
)
@click.option(
    "--as-written", is_flag=True, help="Also change ApiVersions and unreleased versions, as the document specifies."
)
@click.option("--report", "style", type=click.Choice(["csv", "json"]), help="Print one row per field instead of text.")
def rewrite_specs(
    proposal: str, source: str | None, target: Path, suffix: bool, as_written: bool, style: str | None
) -> None:
    """Write message specs in which the errors of all responses are tagged fields, as KIP-636 proposes.

    Every request and response gets a new version. In the new version, each ErrorCode and ErrorMessage of the response
    is a tagged field with the next free tag of its struct. The default of error messages is null. OffsetDelete becomes
    flexible in its new version. SaslHandshake is not changed, as KIP-636 specifies. ApiVersions is not changed either,
    because every client must be able to read the error code in its response (KIP-511). Other specs are copied.

    The same input results in the same files, and rewriting a rewritten folder changes nothing. Use the specs with
    --specs, or with Kafka's own generator.
    """
    result = spec_functions.rewrite_specs("kip-636", target, source=source, suffix=suffix, as_written=as_written)
    rewrite_result = result.tagged_errors
    assert rewrite_result is not None
    if style == "json":
        click.echo(json.dumps(list(_iterate_rows(rewrite_result)), indent=1))
    elif style == "csv":
        table = csv.DictWriter(sys.stdout, _RESULT_COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(_iterate_rows(rewrite_result))
    else:
        for line in _format_summary(result.before, rewrite_result, target):
            click.echo(line)


def _iterate_rows(rewrite_result: RewriteResult) -> Iterator[dict[str, Any]]:
    """Yield a row for each tagged field, and for each message or field that was not changed."""
    for field in rewrite_result.fields:
        default = "" if field.kind == "code" else "null"
        yield _make_row(
            rewrite_result, field.message, field.path, kind=field.kind, tag=field.tag,
            tagged_versions=f"{field.version}+",
            default=f"{default} (was empty)" if field.is_null_default_new else default, arrays=field.arrays,
            outcome="tagged",
        )  # fmt: skip
    for kept_field in rewrite_result.unchanged:
        yield _make_row(rewrite_result, kept_field.message, kept_field.path, outcome=f"left: {kept_field.reason}")


def _make_row(rewrite_result: RewriteResult, message: str, path: Iterable[str], **cells: Any) -> dict[str, Any]:
    """Return a row of the result table, with None in the columns that are not in ``cells``."""
    row = {"api_key": rewrite_result.specs[message].api_key, "message": message, "field": ".".join(path)}
    return dict.fromkeys(_RESULT_COLUMNS) | row | cells


def _format_summary(before: Mapping[str, MessageSpec], rewrite_result: RewriteResult, target: Path) -> Iterator[str]:
    """Yield the lines that list the changed responses and fields, and the counts of changes."""
    for api in rewrite_result.apis:
        notes = ", flexible now" if api.is_flexible_new else ""
        notes += ", changed in place because it is not released yet" if api.before == api.version else ""
        yield f"{api.response} {api.before} -> {api.version}{notes}"
        for field in rewrite_result.fields:
            if field.message == api.response:
                nullable_count = "; its default is now null" if field.is_null_default_new else ""
                yield f"  {'.'.join(field.path)}: tag {field.tag}{nullable_count}"
    for kept_field in rewrite_result.unchanged:
        yield f"left: {'.'.join((kept_field.message, *kept_field.path))}: {kept_field.reason}"
    yield ""
    yield f"{'':<36} {'here':>6}  trunk of October 2024, --suffix --as-written"
    for name, count in count_changes(rewrite_result).items():
        yield f"{name:<36} {count:>6}  {COUNTS_OF_OCTOBER_2024[name]:>6}"
    yield ""
    result = list(compare_sets(before, rewrite_result.specs))
    yield from _describe_breaking_changes(result)
    counts = ", ".join(f"{sum(one.verdict == v for one in result)} {v}" for v in ("breaking", "note", "compatible"))
    specs = count_text(len(rewrite_result.specs), "spec")
    yield f"{most_severe(result)} (spec check): {counts} changes; {specs} in {target}"
