"""The public functions on bytes, records and messages, each importing its room only when it is called.

``import kafkaframes`` must cost next to nothing (a test holds it under 100 ms and free of numba, pyarrow
and pyspark), so the doors are thin: docstring, signature, one local import.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkaframes.capture.reader import CaptureBatches
    from kafkaframes.protocol.messages import Message
    from kafkaframes.protocol.messages.kafka import message as message
    from kafkaframes.protocol.messages.registry import Specs
    from kafkaframes.protocol.spec.catalog import Api
    from kafkaframes.scan.log.records import RecordBatches

Path = str | PathLike[str]


def read_records(
    source: bytes | bytearray | memoryview | Path | Sequence[Path],
    *,
    columns: Sequence[str] | None = None,
    mode: Literal["PERMISSIVE", "DROPMALFORMED", "FAILFAST"] = "PERMISSIVE",
    verify_crc: bool = True,
    control_records: bool = True,
    offsets: tuple[int | None, int | None] = (None, None),
    limit_bytes: int | None = None,
    budget_bytes: int | None = None,
    key_files: Sequence[str] = (),
    replicas: Literal["merge", "all"] = "merge",
    topics: Sequence[str] = (),
    follow_links: bool = False,
) -> RecordBatches:
    """Return an iterator over the records of ``source`` as Arrow record batches of some megabytes.

    >>> kafkaframes.read_records("/backup/kafka-logs", topics=["orders"]).to_pandas()  # doctest: +SKIP

    Args:
        source: bytes, read by the rules of Kafka's memory iterator; or paths, URLs or patterns, read by those of its
            file iterator: segments, partitions' directories, log directories, directories of such, tiered stores.
        columns: ``offset, timestamp, timestamp_type, key, value, headers`` by default, and for directories
            ``topic, partition`` before them. There are also ``base_offset, position, magic, codec, producer_id,
            producer_epoch, sequence, leader_epoch, transactional, control, crc_ok, last_offset, batch_size,
            delete_horizon, key_size, value_size``. A column that is not asked for costs nothing.
        mode: PERMISSIVE gives the records that Kafka would (those before the damage in a damaged batch), DROPMALFORMED
            leaves damaged batches out, FAILFAST raises at the first.
        verify_crc: whether a wrong CRC counts as damage. PERMISSIVE gives such a batch's records all the same.
        control_records: whether transaction markers and the like are among the records.
        offsets: give records from the first offset on, below the second only; None is no bound.
        limit_bytes: the largest size of a decompressed batch, 512 MiB by default; what is beyond is damage.
        budget_bytes: the most memory for batches that are open at once, 256 MiB by default: their decompressed records
            and what is kept of each; a batch that needs more is opened alone.
        key_files: private RSA keys (``path`` or ``id=path``) of encrypted tiered segments; such a segment is named by
            its ``.log`` object.
        replicas: ``merge`` makes one log of segments of one partition in several directories
            (docs/many-copies.md); ``all`` reads each file as it is.
        topics: names or patterns of the topics to read from directories; by default those that are not Kafka's
            own.
        follow_links: read what symbolic links in directories lead to; otherwise they are left out.

    Returns:
        An iterator with ``schema``, and with ``errors``: what was damaged so far (file, position, reason). It has
        ``read_all()`` (a ``pa.Table``) and ``to_pandas()``, and is an Arrow stream: ``polars.from_arrow``, DuckDB and
        pandas take it as it is.

    Raises:
        OptionError: a column or mode does not exist.
        LogDirError: (while iterating) a file cannot be read.
        CorruptRecordError: (while iterating) damage, in mode FAILFAST.
    """
    from kafkaframes.scan.log.records import read_records as read

    return read(
        source,
        columns=columns,
        mode=mode,
        verify_crc=verify_crc,
        control_records=control_records,
        offsets=offsets,
        limit_bytes=limit_bytes,
        budget_bytes=budget_bytes,
        key_files=key_files,
        replicas=replicas,
        topics=topics,
        follow_links=follow_links,
    )


def read_batches(
    source: bytes | bytearray | memoryview | Path | Sequence[Path], *, key_files: Sequence[str] = ()
) -> pa.Table:
    """Return a table of the batches of ``source``, one row each, from their headers alone: nothing is decompressed.

    The first column, ``file``, is there for paths only.

    Args:
        source: bytes, a path of a segment, or several, as in :func:`read_records`.
        key_files: as there.

    Raises:
        LogDirError: a file cannot be read.
    """
    from kafkaframes.scan.log.records import read_batches as read

    return read(source, key_files=key_files)


def read_capture(
    source: Path | Sequence[Path],
    *,
    table: str = "calls",
    columns: Sequence[str] | None = None,
    api: str | None = None,
    ports: Sequence[int] | str = (),
    secrets: bool = False,
) -> CaptureBatches:
    """Return an iterator over recorded Kafka traffic as Arrow record batches (docs/captures.md).

    Args:
        source: a pcap or pcapng file (plain, gzip, zstd, lz4), a directory of a rotating recorder's files, a pattern,
            or several of these, which belong together.
        table: ``calls``, ``connections``, ``gaps``, ``packets`` or ``records``.
        columns: of that table; what is not asked for is not decoded.
        api: calls of this API only, with ``request`` and ``response`` as structs instead of JSON.
        ports: on which brokers listen; by default the bytes of a connection show whether it is Kafka.
        secrets: show credentials (SASL tokens, SCRAM, HMACs of tokens, passwords in configurations).

    Returns:
        An iterator with ``schema``, ``read_all()``, and ``problems``: what is wrong with the files so far.

    Raises:
        OptionError: a path, table, column or API does not exist.
        DecodeError: (while iterating) a file is no capture.
    """
    from os import fspath

    from kafkaframes.capture.reader import CaptureOptions
    from kafkaframes.capture.reader import read_capture as read
    from kafkaframes.capture.streams import ports_of

    paths = [fspath(source)] if isinstance(source, str | PathLike) else [fspath(one) for one in source]
    options = CaptureOptions(
        table=table,
        columns=None if columns is None else tuple(columns),
        api=api,
        ports=ports_of(ports),
        secrets=secrets,
    )
    return read(paths, options)


def build_records(
    columns: Any,
    *,
    record_format: int = 2,
    codec: str | int = "none",
    level: int | None = None,
    base_offset: int = 0,
    batch_bytes: int = 16384,
    batch_records: int | None = None,
    timestamp_type: str | int = "CreateTime",
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """Write records as bytes that any Kafka reads: the content of a segment, or of a produce request.

    >>> build_records([{"key": b"k", "value": b"v", "timestamp": 1_700_000_000_000}], codec="lz4")[16]
    2

    Args:
        columns: a ``pa.Table``, a ``pa.RecordBatch``, a mapping of names to arrays or sequences, or a sequence of
            mappings. ``key`` and ``value`` (binary or string, null allowed), ``offset`` (increasing; holes are
            kept), ``timestamp`` (ms or an Arrow timestamp), ``headers`` (lists of struct<key, value>, maps, or pairs).
            The reader's other columns may be there and are ignored.
        record_format: 0, 1 or 2; formats 0 and 1 hold neither headers nor anything below ``timestamp_type`` here,
            0 holds no timestamp (that column is ignored then).
        codec: none, gzip, snappy, lz4 or zstd (format 2 only).
        level: the codec's level (KIP-390); None is Kafka's default.
        base_offset: the first offset where ``columns`` has none.
        batch_bytes: a batch ends before it would grow larger, counted before compression (Kafka's ``batch.size``);
            one record is always taken.
        batch_records: the largest number of records in a batch.
        timestamp_type: CreateTime or LogAppendTime; with the latter a batch ends where the timestamp changes.
        leader_epoch, producer_id, producer_epoch: as the batches' headers have them; -1 is none.
        base_sequence: of the first batch; later ones go on from there, with 0 after 2^31 - 1. -1 is none.
        transactional, control: the batches' flags. Control records are given with their own keys and values.
        delete_horizon_ms: set as the base of timestamps of every batch (KIP-534).

    Returns:
        Record batches (format 2), wrappers (0 and 1 with a codec), or messages, one after the other.

    Raises:
        EncodeError: a value does not fit; ``path`` names the column and the row.
        OptionError: an option does not exist, or not in this format.
    """
    from kafkaframes.records.build import build_records as build

    return build(
        columns,
        record_format=record_format,
        codec=codec,
        level=level,
        base_offset=base_offset,
        batch_bytes=batch_bytes,
        batch_records=batch_records,
        timestamp_type=timestamp_type,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
        control=control,
        delete_horizon_ms=delete_horizon_ms,
    )


if not TYPE_CHECKING:  # a type checker sees an overload for each name (protocol/messages/kafka.pyi)

    def message(name: str, *, specs: Specs | None = None) -> type[Message]:
        """Return the class of a message of Kafka's protocol or logs, one class for all its versions.

        >>> Metadata = message("MetadataRequest")
        >>> Metadata(topics=None).encode(12).hex()
        '00010000'
        >>> Metadata.decode(bytes.fromhex("00010000"), 12)
        MetadataRequest(topics=None)

        Args:
            name: as Kafka names it: ``MetadataResponse``, ``OffsetCommitValue``, ``RequestHeader``.
            specs: your own specs instead of the catalog's: ``MessageSpec``s, or a path to JSON files.

        Raises:
            SpecError: there is no such message, or a spec is wrong.
            OptionError: ``specs`` has no such message.
        """
        from kafkaframes.protocol.messages.registry import message as find

        return find(name, specs=specs)


def apis() -> tuple[Api, ...]:
    """Return the table of Kafka's APIs by key: names, versions, flexible since, header versions.

    >>> [(api.key, api.name, api.header_versions[9]) for api in apis() if api.name == "Metadata"]
    [(3, 'Metadata', (2, 1))]
    """
    from kafkaframes.protocol.spec import catalog

    return catalog.apis()
