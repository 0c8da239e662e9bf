"""The public functions for message specs: layouts, changes between versions, checks, tags, stubs, guide, proposals.

Each function imports its implementation when it is called. A source of specs is a file, a directory, a jar, a zip file
(of specs, or of a folder with jars), or ``REF:path`` of the git repository in the current directory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal

from kafkaframes.errors import OptionError

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.registry import Specs
    from kafkaframes.protocol.spec.catalog.ledgers import TagTable
    from kafkaframes.protocol.spec.catalog_files import CatalogChanges
    from kafkaframes.protocol.spec.changes import SpecCheck
    from kafkaframes.protocol.spec.drafts import Kip
    from kafkaframes.protocol.spec.layout import Change, LayoutRow
    from kafkaframes.protocol.spec.lint_files import LintResult
    from kafkaframes.protocol.spec.model import MessageSpec
    from kafkaframes.protocol.spec.rewritten import RewrittenSpecs

Source = str | PathLike[str]


def find_specs(name: str) -> list[MessageSpec]:
    """Return the specs with a name.

    >>> [spec.name for spec in find_specs("Metadata")]
    ['MetadataRequest', 'MetadataResponse']

    Args:
        name: a message (``MetadataResponse``), an API (``Metadata``: its request and its response), or a spec file
            (``Foo.json``).

    Raises:
        SpecError: the message does not exist, or the file is not a valid spec.
        OptionError: the file cannot be read.
    """
    from kafkaframes.protocol.spec import sources

    return sources.find_specs(name)


def load_specs(source: Source) -> dict[str, MessageSpec]:
    """Return the specs of a source by message name.

    Args:
        source: a file, directory, jar, zip file or ``REF:path``.

    Raises:
        OptionError: the source does not exist or has no spec.
        SpecError: a spec is invalid, or two specs have the same name.
    """
    from kafkaframes.protocol.spec import sources

    return sources.load_specs(source)


def describe_layout(name: str | MessageSpec, version: int | None = None) -> list[LayoutRow]:
    """Return the wire layout of a message at a version: a row for each field, in byte order.

    >>> [(row.name, row.wire_type) for row in describe_layout("HeartbeatRequest", 0)]
    [('GroupId', 'STRING'), ('GenerationId', 'INT32'), ('MemberId', 'STRING')]

    Args:
        name: a message, a spec file, or a spec.
        version: version of the message. The default is the newest version.

    Raises:
        SpecError: the message does not exist.
        OptionError: the version does not exist, or the name is that of an API with several messages.
    """
    from kafkaframes.protocol.spec import layout, sources

    spec = _find_single_spec(name)
    return list(layout.layout_rows(spec, sources.check_version(spec, version)))


def compare_versions(name: str | MessageSpec, before: int, after: int) -> list[Change]:
    """Return the differences on the wire between two versions of a message.

    >>> [(change.kind, change.path) for change in compare_versions("HeartbeatRequest", 2, 3)]
    [('added', ('GroupInstanceId',))]

    Args:
        name: a message, a spec file, or a spec.
        before: the earlier version.
        after: the later version.

    Raises:
        SpecError: the message does not exist.
        OptionError: a version does not exist, or the name is that of an API with several messages.
    """
    from kafkaframes.protocol.spec import layout, sources

    spec = _find_single_spec(name)
    return layout.list_changes(spec, sources.check_version(spec, before), sources.check_version(spec, after))


def check_specs(before: Source, after: Source) -> SpecCheck:
    """Compare two specs, or two sets of specs, by the rules of evolution (KIP-482).

    Args:
        before: source of the earlier specs.
        after: source of the later specs. Specs that are not in an archive must satisfy all rules of new specs.

    Returns:
        The changes, each with a verdict (breaking, note or compatible), and the most severe of these.

    Raises:
        OptionError: a source does not exist or has no spec.
        SpecError: a spec is invalid.
    """
    from kafkaframes.protocol.spec.changes import SpecCheck
    from kafkaframes.protocol.spec.evolution import compare_messages, compare_sets
    from kafkaframes.protocol.spec.sources import load_checked_specs

    old_specs, new_specs = load_checked_specs(before), load_checked_specs(after, is_new=True)
    if len(old_specs) == len(new_specs) == 1:
        changes = compare_messages(*old_specs.values(), *new_specs.values())
    else:
        changes = list(compare_sets(old_specs, new_specs))
    return SpecCheck(tuple(changes), len(new_specs))


def lint_specs(paths: Source | Sequence[Source], *, tagged_errors: bool = False) -> LintResult:
    """Check message specs by the rules of Kafka's generator, and warn of mistakes that it accepts.

    Args:
        paths: sources of specs.
        tagged_errors: whether to warn of every error code and message in a response that is not tagged (KIP-636).

    Raises:
        OptionError: a source does not exist or has no spec.
    """
    from kafkaframes.protocol.spec.lint_files import lint_paths

    return lint_paths([paths] if isinstance(paths, str | PathLike) else paths, tagged_errors=tagged_errors)


def list_tags(*, specs: Source | Sequence[Source] = ()) -> TagTable:
    """Return the tagged fields of Kafka's messages, or those of proposals with their collisions.

    Args:
        specs: sources of proposals, which are compared with Kafka's releases and with each other. Without sources, the
            tagged fields of Kafka's released messages are returned.

    Raises:
        OptionError: a source does not exist or has no spec.
        SpecError: a spec is invalid.
    """
    from kafkaframes.protocol.spec.catalog.ledgers import tag_table
    from kafkaframes.protocol.spec.sources import load_specs as load

    path_list = [specs] if isinstance(specs, str | PathLike) else specs
    return tag_table({str(source): list(load(source).values()) for source in path_list})


def write_stubs(specs: Source, to: Source) -> list[str]:
    """Write a module of your own messages, and a stub from which editors and type checkers know their fields.

    Args:
        specs: a file or directory of message specs.
        to: the module to write, ``FILE.py``. The stub ``FILE.pyi`` is written next to the module.

    Returns:
        The names of the messages.

    Raises:
        OptionError: ``to`` is not the name of a module, or cannot be written.
        SpecError: a spec is invalid.
    """
    from kafkaframes.protocol.messages.stubs import write_module

    return write_module(specs, to)


def write_guide(to: Source, *, specs: Specs | None = None) -> str:
    """Write the protocol guide: every message at every version, its layout, and the changes between versions.

    Args:
        to: the HTML page, or a directory, in which it is called ``index.html``.
        specs: message specs that override those of the catalog: a path, or ``MessageSpec`` objects.

    Returns:
        The path of the page.

    Raises:
        OptionError: the page cannot be written.
        SpecError: a spec is invalid.
    """
    from kafkaframes.protocol.messages.registry import specs_by_name
    from kafkaframes.protocol.spec.guide import write_page

    return write_page(to, {} if specs is None else specs_by_name(specs))


def rewrite_specs(
    proposal: Literal["kip-636"],
    to: Source,
    *,
    source: Source | None = None,
    suffix: bool = False,
    as_written: bool = False,
) -> RewrittenSpecs:
    """Write message specs with the changes of a published proposal. KIP-636 tags the errors of every response.

    Args:
        proposal: name of the proposal.
        to: the folder to write, which may contain only files of an earlier call with the same arguments.
        source: specs to rewrite. The default is the specs of the catalog.
        suffix: whether fields whose names end in ErrorCode or ErrorMessage are also tagged.
        as_written: whether ApiVersions and unreleased versions are also rewritten, as in the text of the proposal.

    Returns:
        The specs before and after the rewrite, and the changes.

    Raises:
        OptionError: the proposal is unknown, or ``to`` has other files or is inside the source.
        SpecError: a spec is invalid.
    """
    from kafkaframes.protocol.spec.kip_636 import rewrite_errors
    from kafkaframes.protocol.spec.output import check_target, read_files, write_specs
    from kafkaframes.protocol.spec.rewritten import RewrittenSpecs

    if proposal != "kip-636":
        raise OptionError(f"`proposal` is {proposal!r}; expected kip-636")
    files = read_files(source)
    before = {name: spec for name, (spec, _) in files.items()}
    check_target(source, to)
    result = rewrite_errors(before, suffix=suffix, as_written=as_written)
    write_specs(to, result.specs, files)
    return RewrittenSpecs(before, result.specs, result)


def change_specs(change: Callable[[Kip], object], to: Source, *, source: Source | None = None) -> RewrittenSpecs:
    """Write the message specs of your own proposal, which a function describes.

    >>> def add_owner(kip):
    ...     kip.add("MetadataResponse.Topics.Owner", "string", nullable=True)
    >>> change_specs(add_owner, "proposal").changed_names  # doctest: +SKIP
    ['MetadataRequest', 'MetadataResponse']

    Each API that changes gets a new version of both its request and its response. Older versions keep their bytes.

    Args:
        change: function that selects and changes fields of its argument.
        to: the folder to write, which may contain only files of an earlier call with the same arguments.
        source: specs to change. The default is the specs of the catalog.

    Returns:
        The specs before and after the change.

    Raises:
        OptionError: ``to`` has other files or is inside the source.
        SpecError: the changed specs are invalid.
    """
    from kafkaframes.protocol.spec.drafts import Kip
    from kafkaframes.protocol.spec.emit import to_text
    from kafkaframes.protocol.spec.load import load_message
    from kafkaframes.protocol.spec.output import check_target, read_files, write_specs
    from kafkaframes.protocol.spec.rewritten import RewrittenSpecs

    check_target(source, to)
    files = read_files(source)
    kip = Kip({name: spec for name, (spec, _) in files.items()})
    change(kip)
    result = RewrittenSpecs({name: spec for name, (spec, _) in files.items()}, kip.build_specs())
    for name in result.changed_names:
        load_message(to_text(result.after[name]), file=f"{name}.json")  # checks all rules of the language
    write_specs(to, result.after, files)
    return result


def import_releases(paths: Source | Sequence[Source], to: Source, *, check: bool = False) -> CatalogChanges:
    """Write a catalog from the message specs of Kafka releases, in the format of this package's own catalog.

    Args:
        paths: all sources, which together contain the specs of every release.
        to: the folder of the catalog.
        check: whether to compare the folder with the specs, without writing to it.

    Returns:
        The files that were written or removed or, with ``check``, would be.

    Raises:
        OptionError: a source does not exist or has no spec.
        SpecError: a spec is invalid.
    """
    from kafkaframes.protocol.spec.catalog_files import write_catalog_files

    return write_catalog_files([paths] if isinstance(paths, str | PathLike) else paths, to, check=check)


def _find_single_spec(name: str | MessageSpec) -> MessageSpec:
    if not isinstance(name, str):
        return name
    specs = find_specs(name)
    if len(specs) > 1:
        raise OptionError(f"{name} has several messages: {', '.join(spec.name for spec in specs)}")
    return specs[0]
