"""``kafkaframes spec new-kip FILE.py --to NEW``: specs with new versions, from a rewrite in a few lines of Python."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

import click

from kafkaframes.cli.spec_rewrite import check_target, read_files, text_of, write_files
from kafkaframes.errors import OptionError
from kafkaframes.protocol.spec.changes import worst
from kafkaframes.protocol.spec.check import check_sets
from kafkaframes.protocol.spec.drafts import Kip
from kafkaframes.protocol.spec.emit import to_text
from kafkaframes.protocol.spec.load import load_message


@click.command("new-kip")
@click.argument("file", metavar="FILE.py")
@click.option("--from", "source", metavar="DIR|ZIP|JAR", help="Specs to change  [default: the catalog's].")
@click.option("--to", "target", type=click.Path(file_okay=False, path_type=Path), required=True, help="A new folder.")
def command(file: str, source: str | None, target: Path) -> None:
    """Write message specs as a proposal of your own would have them.

    FILE.py has a function rewrite(kip), which selects and changes fields:

    \b
      def rewrite(kip):
          for field in kip.fields("*Response.*ErrorCode", type="int16"):
              field.tag()
          kip.add("MetadataResponse.Topics.Owner", "string", nullable=True)
          for field in kip.fields("FetchRequest.RackId"):
              field.drop()
          kip.bump("Heartbeat")

    Each API of which something changes gets a new version, request and response alike; older versions keep their
    bytes. The file is run: it must be your own. Then: kafkaframes spec propose NEW CAPTURE.
    """
    check_target(source, target)
    files = read_files(source)
    before = {name: spec for name, (spec, _) in files.items()}
    kip = Kip(before)
    _function(file)(kip)
    after = kip.specs()
    changed = {name: spec for name, spec in after.items() if spec != before[name]}
    for name, spec in changed.items():
        load_message(to_text(spec), file=f"{name}.json")  # held to all rules of the language
    write_files(target, {f"{name}.json": text_of(spec, *files[name]) for name, spec in after.items()})
    for name, spec in sorted(changed.items()):
        click.echo(f"{name} {before[name].valid_versions.highest} -> {spec.valid_versions.highest}")
    findings = list(check_sets(before, after))
    for finding in findings:
        if finding.verdict == "breaking":
            click.echo(f"breaking: {finding.message}.{finding.place}: {finding.text} ({finding.rule.name})")
    click.echo(f"{worst(findings)} (spec check): {len(changed)} messages changed; {len(after)} specs in {target}")


def _function(file: str) -> Callable[[Kip], object]:
    try:
        function = runpy.run_path(file).get("rewrite")
    except OSError as error:
        raise OptionError(f"{file}: {error.strerror}") from None
    if not callable(function):
        raise OptionError(f"{file} has no function rewrite(kip)")
    return function  # type: ignore[no-any-return]
