"""Check spec files individually and against each other, for ``kafkaframes.protocol.lint_specs``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafkaframes.errors import SpecError
from kafkaframes.protocol.spec.catalog.importing import PublishedSpec
from kafkaframes.protocol.spec.evolution import find_unpaired_versions
from kafkaframes.protocol.spec.jsontext import JsonText
from kafkaframes.protocol.spec.lint import lint_document, lint_set
from kafkaframes.protocol.spec.load import (
    NEWEST_DIALECT,
    PUBLISHED_DIALECT,
    build_spec,
    find_problems,
    read_declaration,
)
from kafkaframes.protocol.spec.model import MessageSpec
from kafkaframes.protocol.spec.sources import read_published


class LintFinding(NamedTuple):
    """A mistake in a spec, or between the specs of a request and its response.

    Attributes:
        is_error: whether Kafka's generator rejects the spec because of this mistake; False for a warning.
        text: description of the mistake, with file, line, field, reason and rule.
    """

    is_error: bool
    text: str


@dataclass(frozen=True, slots=True)
class LintResult:
    """The result of a check of spec files.

    Attributes:
        files: number of files that were checked.
        findings: the mistakes, in the order of the files; mistakes between specs are last.
    """

    files: int
    findings: tuple[LintFinding, ...]

    @property
    def errors(self) -> int:
        """The number of errors."""
        return sum(finding.is_error for finding in self.findings)

    @property
    def warnings(self) -> int:
        """The number of warnings."""
        return len(self.findings) - self.errors


def lint_paths(paths: Sequence[str | os.PathLike[str]], *, tagged_errors: bool = False) -> LintResult:
    """Check the spec files of sources."""
    files = [file for path in paths for file in read_published(path)]
    specs: list[MessageSpec] = []
    findings = [
        LintFinding(is_error, text)
        for file in files
        for is_error, text in _check_file(file, specs, tagged_errors=tagged_errors)
    ]
    if len(files) > 1:
        findings += [LintFinding(False, text) for text in _find_set_mistakes(specs)]
    return LintResult(len(files), tuple(findings))


def _check_file(entry: PublishedSpec, specs: list[MessageSpec], *, tagged_errors: bool) -> Iterator[tuple[bool, str]]:
    """Yield (whether it is an error, text) for each mistake in a file. A spec without errors is added to ``specs``."""
    dialect = PUBLISHED_DIALECT if entry.release != "0" else NEWEST_DIALECT
    try:
        document = JsonText(entry.text, file=entry.file)
    except SpecError as error:
        yield True, str(error)
        return
    problems = list(find_problems(document, dialect))
    is_accepted = not problems
    if is_accepted:
        declared_message = read_declaration(document, dialect)
        specs.append(build_spec(declared_message))
        problems = list(lint_document(document, declared_message, tagged_errors=tagged_errors))
        if document.trailing:
            yield False, f"{entry.file}:{document.trailing_line}: text after the closing brace (one-object)"
    for problem in problems:
        path = ".".join(problem.path)
        line = document.line_of(problem.where)
        yield not is_accepted, f"{entry.file}:{line}: {f'{path}: ' if path else ''}{problem.reason} ({problem.rule})"


def _find_set_mistakes(specs: list[MessageSpec]) -> Iterator[str]:
    """Yield the mistakes between the specs, as text."""
    for rule, message, reason in lint_set(specs):
        yield f"{message}: {reason} ({rule})"
    for finding in find_unpaired_versions(specs):
        yield f"{finding.message}: {finding.text} ({finding.rule.name})"
