"""Plan how to measure what record formats, tag headers and proposals cost on the wire, and define the results."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from kafkaframes.capture.coverage import Coverage, entry_to_json
from kafkaframes.capture.files import CAPTURE_NAME_PATTERN, find_files, is_traffic
from kafkaframes.capture.reader import is_request_log
from kafkaframes.errors import OptionError
from kafkaframes.jobs.analyze import scale
from kafkaframes.jobs.analyze.outcome import SizeComparison
from kafkaframes.jobs.analyze.proposals import ProposalSettings
from kafkaframes.jobs.analyze.records import RecordSizes
from kafkaframes.jobs.analyze.traffic import FETCHED, PRODUCED, TrafficTask, measure_task_records
from kafkaframes.jobs.job import Runner
from kafkaframes.jobs.settings import PartitionSettings
from kafkaframes.protocol.messages.registry import ApiRegistry, Specs
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.model import MessageSpec
from kafkaframes.protocol.spec.sources import load_specs
from kafkaframes.storage.files.scan import scan_segment
from kafkaframes.storage.log.discover import discover, select_partitions

LOG_SOURCE: Final = "log"  # name of the logs among the sources of a record analysis
NAMED_PROPOSALS: Final = ("kip-636", "flexible", "tag-header")  # proposals that need no message specs


@dataclass
class RecordAnalysis:
    """The sizes of the same records in formats 0, 1 and 2.

    Attributes:
        sizes: sizes of the records in logs (``log``) and in captures (``produced``, ``fetched``).
        coverage: data of captures that was not read.
    """

    sizes: dict[str, RecordSizes] = field(default_factory=dict)
    coverage: Coverage = field(default_factory=Coverage)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the sizes of each source as a JSON object."""
        for name, sizes in self.sizes.items():
            yield {"source": name} | dataclasses.asdict(sizes) | {"totals": sizes.totals}

    def to_dict(self) -> dict[str, Any]:
        """Return the sizes as JSON values."""
        return {"sources": list(self.rows()), "unread": [entry_to_json(entry) for entry in self.coverage.unread]}


@dataclass(frozen=True)
class TagHeaderSizes:
    """The sizes of the tag headers that KIP-482 considers.

    Attributes:
        headers: sizes of tag headers for each value length and tag number.
        fields: sizes of the tag header of each tagged field in the messages.
        messages: sizes of whole messages with one element in each array.
    """

    headers: list[scale.HeaderSize]
    fields: list[scale.TaggedField]
    messages: list[scale.MessageSize]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the sizes of each header, tagged field and message as a JSON object."""
        for kind, rows in (("header", self.headers), ("field", self.fields), ("message", self.messages)):
            for row in rows:
                yield {"kind": kind, **dataclasses.asdict(row)}


@dataclass(frozen=True)
class ProposalSizes:
    """The sizes of messages before and after a change of their specs.

    Attributes:
        settings: the specs before and after, and how sizes are grouped.
        outcome: the measured sizes.
        scaled: bytes per second of a mix of calls; empty without a mix.
    """

    settings: ProposalSettings
    outcome: SizeComparison
    scaled: list[scale.ByteRate]


def split_logs_and_captures(paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """Divide paths into logs and captures, and return both lists.

    Raises:
        OptionError: a path is a request log, which has no records.
    """
    captures = [path for path in paths if _is_capture(path)]
    return [path for path in paths if path not in captures], captures


def _is_capture(source: str) -> bool:
    """Return whether a source is a capture, or a directory of captures. A request log raises ``OptionError``."""

    if not is_traffic(source):
        return False
    if os.path.isfile(source) and not CAPTURE_NAME_PATTERN.search(os.path.basename(source)):
        if is_request_log(source):
            raise OptionError(f"{source}: a request log has no records; give a capture or a log")
        return False
    return True


def measure_records(
    logs: Sequence[str],
    tasks: Sequence[TrafficTask],
    settings: PartitionSettings,
    *,
    specs: Specs | None,
    run: Runner,
) -> RecordAnalysis:
    """Measure the records of logs in this process, and the records of captures in tasks that ``run`` executes.

    Raises:
        OptionError: the logs do not have a selected topic or partition.
    """
    result = RecordAnalysis()
    if logs:
        result.sizes[LOG_SOURCE] = _measure_logs(logs, settings)
    elif settings.topic_names or settings.partition_numbers:
        raise OptionError("`topics` and `partitions` select records of logs, not of captures")
    if tasks:
        result.sizes |= {PRODUCED: RecordSizes(), FETCHED: RecordSizes()}
        for part in run(partial(measure_task_records, apis=ApiRegistry(specs)), tasks):
            result.coverage.update(part.coverage.entries)
            for part_name, sizes in part.sizes.items():
                result.sizes[part_name].merge(sizes)
    return result


def _measure_logs(sources: Sequence[str], settings: PartitionSettings) -> RecordSizes:
    """Return the sizes of the records in logs on disk."""
    sizes = RecordSizes()
    directories = discover(sources, options=settings.storage, omit_unreadable=True)
    for directory in select_partitions(directories, settings.topic_names, settings.partition_numbers):
        for unreadable_partition in directory.unreadable_partitions:
            raise unreadable_partition.as_error()
        for partition in directory.partitions:
            for segment in partition.segments:
                with directory.filesystem.open(segment.path) as read_at:
                    for window in scan_segment(
                        read_at, size_bytes=segment.size_bytes, includes_data=True, file=segment.path
                    ):
                        sizes.add_batches(window.data, window.batches_in_data())
    return sizes


def measure_tag_headers(
    names: Sequence[str], lengths: Sequence[int], tags: Sequence[int], text_bytes: int | None
) -> TagHeaderSizes:
    """Measure tag headers for the given lengths and tags, and for the newest versions of the messages in ``names``."""
    size = scale.EXAMPLE_TEXT_BYTES if text_bytes is None else text_bytes
    specs = [catalog.load_spec(name) for name in names or catalog.list_names()]
    newest = [(spec, _find_newest_flexible_version(spec, is_required=bool(names))) for spec in specs]
    flexible = [(spec, version) for spec, version in newest if version is not None]
    return TagHeaderSizes(
        scale.list_header_sizes(lengths or scale.EXAMPLE_LENGTHS, tags or scale.EXAMPLE_TAGS),
        [field for spec, version in flexible for field in scale.find_tagged_fields(spec, version, size)],
        [scale.compare_message_sizes(spec, version, size) for spec, version in flexible],
    )


def _find_newest_flexible_version(spec: MessageSpec, *, is_required: bool) -> int | None:
    """Return the newest version if it is flexible.

    Otherwise return None, or raise an error if ``is_required`` is set.
    """
    version = spec.valid_versions.highest
    if not spec.valid_versions.is_empty and spec.flexible_versions.contains(version):
        return version
    if is_required:
        raise OptionError(f"{spec.name}: no version has tagged fields")
    return None


def make_proposal_settings(
    proposal: str, before: str | None, values: Sequence[str], by: Sequence[str]
) -> ProposalSettings:
    """Return the settings for measuring a proposal: a built-in one, or message specs that replace the current ones.

    Raises:
        OptionError: a source does not exist, or values are given for a proposal without new fields.
    """
    old = None if before is None else load_specs(before)
    if proposal in NAMED_PROPOSALS:
        if values:
            raise OptionError(f"`values`: proposal {proposal} does not add fields")
        return ProposalSettings(proposal, None, old, (), tuple(by))
    return ProposalSettings(proposal, load_specs(proposal), old, tuple(values), tuple(by))


def scale_mix(
    mix: str, outcome: SizeComparison, settings: ProposalSettings, ports: Sequence[int]
) -> list[scale.ByteRate]:
    """Return the bytes per second of a mix of calls, which is read from a CSV file or from recorded traffic."""
    if is_traffic(mix) and not mix.endswith(".csv"):
        rates = scale.measure_mix(find_files((mix,)), ports, settings.apis, outcome.coverage)
    else:
        rates = scale.read_mix(mix, settings.apis)
    return list(scale.scale_outcome(outcome, rates, settings))
