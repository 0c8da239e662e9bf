"""Define kafka-dump-log's output by Kafka version: line templates over the columns of batches and records.

There are three styles, ``4.3``, ``3.9`` and ``2.8``. A version in between has the style of the next lower one. Columns
have the names of the fields in the JSON lines of a dump (``base_offset``, ``leader_epoch``, ...), see ``columns.py``.
Some oddities are deliberate, because Kafka prints them: the closing brace after the CRC of a v0/v1 record in 3.x, two
``crc`` and two ``isvalid`` in the lines of 2.8, upper-case codecs in 2.8, ``OptionalLong.empty``.

``FileFindings`` has the mismatches in a file, and the faults that ended a batch or the file. kafka-dump-log collects
the mismatches until it has printed all files, and then writes them to standard error, most of them from last to first.
:func:`format_findings` does the same for one file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafkaframes.errors import KafkaframesError, OptionError
from kafkaframes.jobs.dump.chunks import NO_FILTER, RecordSelection
from kafkaframes.jobs.dump.lines import (
    BytesPart,
    CompiledLine,
    NullBranchPart,
    NumberPart,
    Part,
    TextPart,
    WordPart,
    plan_line,
)
from kafkaframes.jobs.dump.names import MAX_CHECKED_BATCH_BYTES, NEWEST_STYLE

# Texts of timestamp types: none, CreateTime, LogAppendTime.
TIMESTAMP_TYPES = (b"NoTimestampType", b"CreateTime", b"LogAppendTime")
CODECS = (b"none", b"gzip", b"snappy", b"lz4", b"zstd")  # codec names by number
_BOOLEAN_TEXTS = (b"false", b"true")  # the texts of 0 and 1
_TEXTS_BY_COLUMN: Mapping[str, tuple[bytes, ...]] = {
    "codec": CODECS,
    "upper_codec": tuple(codec.upper() for codec in CODECS),
    "valid": _BOOLEAN_TEXTS,
    "record_valid": _BOOLEAN_TEXTS,
    "transactional": _BOOLEAN_TEXTS,
    "control": _BOOLEAN_TEXTS,
}

# An item is `label:column`, or `column` if both are equal, or `label=text`. The label `*` is the timestamp type.
_BATCH_TEMPLATE = (
    *("baseOffset:base_offset", "lastOffset:last_offset", "count"),
    *("baseSequence:base_sequence", "lastSequence:last_sequence"),
    *("producerId:producer_id", "producerEpoch:producer_epoch", "partitionLeaderEpoch:leader_epoch"),
    *("isTransactional:transactional", "isControl:control", "deleteHorizonMs:delete_horizon"),
    *("position", "*:max_ts", "size", "magic", "compresscodec:codec", "crc", "isvalid:valid"),
)
_MESSAGE_TEMPLATE = (
    *("offset:last_offset", "position", "*:max_ts", "size"),
    *("magic", "compresscodec:codec", "crc", "isvalid:valid"),
)
# Columns that all record lines have.
_RECORD_TEMPLATE = ("offset", "*:timestamp", "keySize:key_size", "valueSize:value_size")
_RECORD_VALIDITY_2_8 = ("isValid:record_valid", "crc:record_crc")
_RECORD_SIZES_2_8 = (
    *("keySize:key_size", "valueSize:value_size", "*:timestamp", "baseOffset:base_offset", "lastOffset:last_offset"),
    *("baseSequence:base_sequence", "lastSequence:last_sequence", "producerEpoch:producer_epoch"),
    *("partitionLeaderEpoch:leader_epoch", "batchSize:size", "magic", "compressType:upper_codec", "position"),
)

# Columns of the batch that 2.8 repeats in the lines of its records.
_REPEATED_COLUMNS_2_8 = (
    *("base_offset", "last_offset", "base_sequence", "last_sequence", "producer_epoch", "leader_epoch"),
    *("size", "magic", "codec", "position"),
)

_DELETE_HORIZON: Part = NullBranchPart(
    "delete_horizon",
    (TextPart(b"OptionalLong.empty"),),
    (TextPart(b"OptionalLong["), BytesPart("delete_horizon"), TextPart(b"]")),
)
_HEADER_KEYS: tuple[Part, ...] = (TextPart(b" headerKeys: ["), BytesPart("header_keys"), TextPart(b"]"))
_KEY_AND_PAYLOAD_LABELS: tuple[Part, ...] = (
    NullBranchPart("key_text", (), (TextPart(b" key: "), BytesPart("key_text"))),
    NullBranchPart("value_text", (), (TextPart(b" payload: "), BytesPart("value_text"))),
)
_PAYLOAD_WITHOUT_KEY = NullBranchPart("value_text", (), (TextPart(b"| payload: "), BytesPart("value_text")))
_KEY_AND_PAYLOAD = (
    TextPart(b"| key: "),
    BytesPart("key_text"),
    NullBranchPart("value_text", (), (TextPart(b" payload: "), BytesPart("value_text"))),
)
_CONTROL_TEXT: Part = NullBranchPart("control_text", (), (TextPart(b" "), BytesPart("control_text")))


def _make_labelled_part(item: str) -> tuple[Part, ...]:
    """Return the parts of a line for an item of a template: ``label:column``, or a name that is both."""
    label, _, column = item.partition(":")
    column = column or label
    if label == "*":
        return TextPart(b" "), WordPart("ts_type", TIMESTAMP_TYPES), TextPart(b": "), NumberPart(column)
    if "=" in label:
        return (TextPart(f" {label.replace('=', ': ')}".encode()),)
    if column == "delete_horizon":
        return TextPart(f" {label}: ".encode()), _DELETE_HORIZON
    value: Part = NumberPart(column)
    if column in _TEXTS_BY_COLUMN:
        value = WordPart(column.removeprefix("upper_"), _TEXTS_BY_COLUMN[column])
    return TextPart(f" {label}: ".encode()), value


def _compile_line(template: Sequence[str], *extra: Part, start: bytes = b"") -> CompiledLine:
    """Compile the line of a template, followed by more parts."""
    first, *more_parts = [part for item in template for part in _make_labelled_part(item)]
    assert isinstance(first, TextPart)
    return plan_line(TextPart(start + first.text.lstrip()), *more_parts, *extra, TextPart(b"\n"))


def _use_upper_codec(item: str) -> str:
    """Return an item of a template with the codec's name in capital letters, as 2.8 prints it."""
    return item.replace(":codec", ":upper_codec")


def _compile_record_line(template: Sequence[str], *extra: Part) -> CompiledLine:
    """Compile the line of a record from a template."""
    return _compile_line(template, *extra, *_KEY_AND_PAYLOAD_LABELS, start=b"| ")


@dataclass(frozen=True, slots=True)
class OutputStyle:
    """The output style of a kafka-dump-log version.

    Attributes:
        name: value of ``--style`` that selects this style.
        start: text before the base offset of a segment.
        batch, message: line for a v2 batch, and for a v0/v1 message or wrapper.
        record, message_record: line for a v2 record, and for a v0/v1 record.
        bare: line of a record that is printed without its metadata.
        batch_fields: batch fields that are repeated in each record line.
        counts_from_zero: whether a segment that does not begin at offset 0 counts as not consecutive. If set, pairs
            that are not consecutive are printed from first to last.
        walks_to_the_end: whether the check of a time index reads the log to its end.
        missing_heading: heading of the indexed offsets that the log does not have.
        absent, present: text of an ``OptionalLong`` (2.8: of Scala's ``Option``).
        producer_timestamp: whether the line of a producer without a batch has its last timestamp.
        trailing_space: whether the line of a producer without a batch ends with a space.
        control_json: types of the control records that are printed as JSON.
        json_offsets, json_transactions: whether group records and transaction records are printed as JSON.
        remote_transaction_index: whether the text of a remote segment has ``txnIdxEmpty``.
    """

    name: str
    start: str
    batch: CompiledLine
    message: CompiledLine
    record: CompiledLine
    message_record: CompiledLine
    bare: CompiledLine
    batch_fields: tuple[str, ...]
    counts_from_zero: bool
    walks_to_the_end: bool
    missing_heading: str
    absent: str
    present: str
    producer_timestamp: bool
    trailing_space: bool
    control_json: frozenset[str]
    json_offsets: bool
    json_transactions: bool
    remote_transaction_index: bool


_BATCH_LINE = _compile_line(_BATCH_TEMPLATE)  # line of a v2 batch
_MESSAGE_LINE = _compile_line(_MESSAGE_TEMPLATE)  # line of a v0 or v1 message
# Line of a v2 record.
_RECORD_LINE = _compile_record_line((*_RECORD_TEMPLATE, "sequence"), *_HEADER_KEYS, _CONTROL_TEXT)
_MESSAGE_RECORD_TEMPLATE = (*_RECORD_TEMPLATE, "isValid:record_valid", "crc:record_crc")
# --skip-record-metadata: the bar is printed with the key. Since 4.x it is also printed with a payload without a key.
_RECORD_ONLY_LINE = plan_line(NullBranchPart("key_text", (_PAYLOAD_WITHOUT_KEY,), _KEY_AND_PAYLOAD), TextPart(b"\n"))
_RECORD_ONLY_LINE_2_8 = plan_line(
    NullBranchPart("key_text", _KEY_AND_PAYLOAD_LABELS[1:], _KEY_AND_PAYLOAD), TextPart(b"\n")
)

_SNAPSHOT_MARKERS = frozenset({"SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION", "KRAFT_VOTERS"})

_STYLE_4_3 = OutputStyle(
    name="4.3",
    start="Log starting offset: ",
    batch=_BATCH_LINE,
    message=_MESSAGE_LINE,
    record=_RECORD_LINE,
    message_record=_compile_record_line(_MESSAGE_RECORD_TEMPLATE),
    bare=_RECORD_ONLY_LINE,
    batch_fields=(),
    counts_from_zero=True,
    walks_to_the_end=True,
    missing_heading="The following indexed offsets are not found in :{file}",
    absent="OptionalLong.empty",
    present="OptionalLong[{}]",
    producer_timestamp=True,
    trailing_space=False,
    control_json=_SNAPSHOT_MARKERS | {"LEADER_CHANGE"},
    json_offsets=True,
    json_transactions=True,
    remote_transaction_index=True,
)
_3_9 = replace(
    _STYLE_4_3,
    name="3.9",
    message_record=_compile_record_line(_MESSAGE_RECORD_TEMPLATE, TextPart(b"}")),
    bare=_RECORD_ONLY_LINE_2_8,
    counts_from_zero=False,
    walks_to_the_end=False,
    missing_heading="The following indexed offsets are not found in the log.",
    trailing_space=True,
    control_json=_SNAPSHOT_MARKERS,
    json_transactions=False,
    remote_transaction_index=False,
)
_2_8 = replace(
    _3_9,
    name="2.8",
    start="Starting offset: ",
    batch=_compile_line(
        [_use_upper_codec(item) for item in _BATCH_TEMPLATE if item != "deleteHorizonMs:delete_horizon"]
    ),
    message=_compile_line([_use_upper_codec(item) for item in _MESSAGE_TEMPLATE]),
    record=_compile_record_line(
        ("offset", "isValid=true", "crc=null", *_RECORD_SIZES_2_8, "sequence"),
        *_HEADER_KEYS,
        _CONTROL_TEXT,
    ),
    message_record=_compile_record_line(
        ("offset", *_RECORD_VALIDITY_2_8, *_RECORD_SIZES_2_8, "crc:record_crc", "isvalid:record_valid")
    ),
    batch_fields=_REPEATED_COLUMNS_2_8,
    absent="None",
    present="Some({})",
    producer_timestamp=False,
    control_json=frozenset(),
    json_offsets=False,
)
STYLES: Mapping[str, OutputStyle] = {style.name: style for style in (_STYLE_4_3, _3_9, _2_8)}


def find_style(version: str) -> OutputStyle:
    """Return the newest style that is not newer than a Kafka version. Versions before 2.8 have the style of 2.8.

    >>> [find_style(version).name for version in ("3.9.1", "4.4.0", "2.3", "3.0")]
    ['3.9', '4.3', '2.8', '2.8']

    Raises:
        OptionError: ``version`` does not begin with two numbers.
    """
    try:
        version_numbers = _parse_version(version)
    except ValueError:
        raise OptionError(
            f"{version!r} is not a Kafka version; expected one of "
            f"{', '.join(STYLES)}, or another version with two numbers"
        ) from None
    style_names = [name for name in STYLES if _parse_version(name) <= version_numbers]
    return STYLES[max(style_names, key=_parse_version, default="2.8")]


def _parse_version(version: str) -> tuple[int, int]:
    """Return the major and minor number of a version."""
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


@dataclass(frozen=True, slots=True)
class TextOptions:
    """Flags of kafka-dump-log, and the Kafka version that determines the style."""

    style: str = NEWEST_STYLE
    deep_iteration: bool = False
    print_data_log: bool = False
    skip_record_metadata: bool = False
    index_sanity_check: bool = False
    verify_index_only: bool = False
    max_bytes: int | None = None
    max_message_size: int = MAX_CHECKED_BATCH_BYTES
    decoder: str = ""
    keep: RecordSelection = NO_FILTER

    @property
    def has_contents(self) -> bool:
        """Whether keys and payloads are printed."""
        return self.print_data_log or bool(self.decoder)

    @property
    def has_records(self) -> bool:
        """Whether the line of a batch is followed by the lines of its records."""
        return self.deep_iteration or self.has_contents


Pairs = list[tuple[int, int]]


@dataclass(slots=True)
class FileFindings:
    """The mismatches and faults of one file.

    Attributes:
        file: path of the file, in printable form.
        mismatches: for an offset index: offset of an entry, and last offset of the batch at its position.
        timestamp_mismatches: for a time index: timestamp of an entry, and largest timestamp of its batch.
        out_of_order: for a time index: timestamp of an entry, and that of the previous entry.
        missing: for a time index: offset of an entry, and the offset in the log instead (-1: none).
        not_consecutive: for a segment: offset of a record, and that of the next record.
        notes: complete lines for standard error.
        faults: errors that ended a batch's records or the file. Kafka's tool ends at the first.
    """

    file: str
    mismatches: Pairs = field(default_factory=list)
    timestamp_mismatches: Pairs = field(default_factory=list)
    out_of_order: Pairs = field(default_factory=list)
    missing: Pairs = field(default_factory=list)
    not_consecutive: Pairs = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    faults: list[KafkaframesError] = field(default_factory=list)


def format_findings(findings: FileFindings, style: OutputStyle) -> Iterator[str]:
    """Yield the lines of one file's findings in kafka-dump-log's text, without the faults."""
    yield from findings.notes
    for heading, detail, pairs in (
        ("Mismatches in :{file}", "  Index offset: {}, log offset: {}", findings.mismatches),
        (
            "Found timestamp mismatch in :{file}",
            "  Index timestamp: {}, log timestamp: {}",
            findings.timestamp_mismatches,
        ),
        (
            "Found out of order timestamp in :{file}",
            "  Index timestamp: {}, Previously indexed timestamp: {}",
            findings.out_of_order,
        ),
        (style.missing_heading, "Indexed offset: {}, found log offset: {}", findings.missing),
        ("Non-consecutive offsets in {file}", "  {} is followed by {}", findings.not_consecutive),
    ):
        if pairs:
            yield heading.format(file=findings.file)
            first_to_last = style.counts_from_zero and pairs is findings.not_consecutive
            yield from (detail.format(*offsets) for offsets in (pairs if first_to_last else reversed(pairs)))
