"""The public functions that scan and read logs, topics and captures.

Each function imports its implementation when it is called, so that ``import kafkaframes`` stays cheap. A test checks
that it imports neither numba, pyarrow nor pyspark.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from kafkaframes.errors import OptionError
from kafkaframes.storage.files.paths import to_path_list

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkaframes.protocol.messages.registry import Specs
    from kafkaframes.scan.ranges import Limit
    from kafkaframes.scan.rows import RecordBatches
    from kafkaframes.scan.scan import Scan
    from kafkaframes.scan.selection import Isolation, OnDamage

Path = str | PathLike[str]


def scan_log(
    paths: Path | Sequence[Path],
    *,
    topics: str | Sequence[str] = (),
    partitions: int | Sequence[int] = (),
    start: Limit = None,
    end: Limit = None,
    isolation: Isolation | None = None,
    control_records: bool = False,
    on_damage: OnDamage = "keep",
    verify_crc: bool = True,
    fail_on_data_loss: bool = True,
    replicas: Literal["merge", "all"] = "merge",
    key_files: Sequence[str] = (),
    follow_links: bool = False,
    storage: Mapping[str, Any] | None = None,
    limit_bytes: int | None = None,
    budget_bytes: int | None = None,
) -> Scan:
    """Return a scan of the records of log directories, backups, tiered stores or single segments (docs/scans.md).

    >>> scan_log("/backup/*", topics="orders").where(partition=0).select("offset", "value")
    scan of log /backup/*; where partition 0; columns offset, value

    Nothing is read yet. Rows have ``topic``, ``partition``, ``offset``, ``timestamp``, ``timestamp_type``, ``key``,
    ``value`` and ``headers``. ``select`` also accepts ``file`` and the other columns of ``read_records``.

    Args:
        paths: Directories, segments, patterns or URLs. Segments that are listed one by one are read in that order.
        topics: Topic names or patterns. Default: all topics except Kafka's internal topics.
        partitions: Partition numbers in each of these topics. Default: all.
        start, end: Start and end of the range in each partition, end exclusive: ``"earliest"``, ``"latest"``, an
            offset, or a time (a datetime, a date or text; UTC without a zone). A mapping such as ``{"orders": {0:
            17}}`` sets an offset or a time for each partition. Times are resolved to offsets in the same way as by
            ListOffsets requests.
        isolation: ``read_committed`` omits the records of aborted transactions, and all records from the first open
            transaction on. Default: ``read_committed``, and ``read_uncommitted`` for single segments
            (docs/selecting.md).
        control_records: Whether transaction markers and other control records are returned.
        on_damage: ``keep`` returns the records that Kafka's reader returns, ``drop`` omits damaged batches, and
            ``fail`` raises an error at the first damage.
        verify_crc: Whether a wrong CRC counts as damage.
        fail_on_data_loss: Whether an offset in ``start`` or ``end`` that the log no longer has is an error.
        replicas: ``merge`` combines the replicas of a partition to one log (docs/many-copies.md). ``all`` reads each
            replica.
        key_files: Private RSA keys of encrypted tiered segments.
        follow_links: Whether symbolic links in directories are followed.
        storage: Keyword arguments for the constructor of fsspec's file system, if paths are URLs.
        limit_bytes: Largest size of a decompressed batch, 512 MiB by default. A larger batch counts as damage.
        budget_bytes: Largest total memory of the batches that are open at the same time, 256 MiB by default.

    Raises:
        OptionError: An option has an invalid value, or two options contradict each other.
    """
    from kafkaframes.records.limits import DEFAULT_BUDGET_BYTES, DEFAULT_LIMIT_BYTES
    from kafkaframes.scan.log.options import ReadOptions
    from kafkaframes.scan.log.source import create_log_source
    from kafkaframes.scan.ranges import check_batch_start
    from kafkaframes.scan.scan import Scan
    from kafkaframes.scan.selection import Selection, check_choice
    from kafkaframes.storage.files.filesystem import storage_options

    check_choice("replicas", replicas, ("merge", "all"))
    selection = Selection(
        topics=topics,
        partitions=partitions,
        start=start,
        end=end,
        isolation=isolation,
        control_records=control_records,
        on_damage=on_damage,
    )
    check_batch_start(selection.log_range[0])
    options = ReadOptions(
        tuple(to_path_list(paths)),
        **selection.log_fields(),
        no_match="latest",
        fail_on_data_loss=fail_on_data_loss,
        replicas=replicas,
        verify_crc=verify_crc,
        limit_bytes=DEFAULT_LIMIT_BYTES if limit_bytes is None else limit_bytes,
        budget_bytes=DEFAULT_BUDGET_BYTES if budget_bytes is None else budget_bytes,
        storage=storage_options(key_files, follow_links=follow_links, store=storage),
    )
    return Scan(create_log_source(options, selection.topic_names, as_log=selection.needs_log))


def scan_topic(
    servers: str | Sequence[str],
    topics: str | Sequence[str],
    *,
    partitions: int | Sequence[int] = (),
    start: Limit = None,
    end: Limit = None,
    isolation: Isolation = "read_committed",
    control_records: bool = False,
    on_damage: OnDamage = "keep",
    fail_on_data_loss: bool = True,
    client: Mapping[str, Any] | None = None,
) -> Scan:
    """Return a scan of the records of live topics, without a consumer group (docs/scans.md).

    Each run looks up the end offset of each partition and reads up to it. Records that are appended later are not
    read. Rows have the same columns as those of ``scan_log``.

    Args:
        servers: Bootstrap servers: ``host:port``, several separated by commas, or a list.
        topics: Topic names or patterns.
        partitions: Partition numbers in each of these topics. Default: all.
        start, end: As for ``scan_log``. ``"group:NAME"`` starts at the committed offsets of a consumer group.
        isolation: ``read_committed`` omits the records of aborted transactions, and all records from the first open
            transaction on.
        control_records: Whether transaction markers and other control records are returned.
        on_damage: As for ``scan_log``.
        fail_on_data_loss: Whether an offset of the range that the topic no longer has is an error.
        client: Further consumer settings under Kafka's names, for example ``{"security.protocol": "SSL"}``.

    Raises:
        OptionError: An option has an invalid value, or two options contradict each other.
    """
    from kafkaframes.scan.scan import Scan
    from kafkaframes.scan.selection import ISOLATIONS, Selection, check_choice
    from kafkaframes.scan.topic.options import build_consumer_options, select_from_topics
    from kafkaframes.scan.topic.source import TopicSource

    check_choice("isolation", isolation, ISOLATIONS)
    if isinstance(servers, str | PathLike) and os.path.isdir(servers):
        raise OptionError(f"{os.fspath(servers)} is a directory; expected HOST:PORT (scan_log reads log directories)")
    selection = Selection(
        topics=topics,
        partitions=partitions,
        start=start,
        end=end,
        isolation=isolation,
        control_records=control_records,
        on_damage=on_damage,
    )
    settings = build_consumer_options(servers, client, isolation=isolation)
    return Scan(TopicSource(select_from_topics(settings, selection, fail_on_data_loss=fail_on_data_loss)))


def scan_capture(
    paths: Path | Sequence[Path],
    *,
    table: str = "calls",
    api: str | None = None,
    ports: Sequence[int] | str = (),
    secrets: bool = False,
    specs: Specs | None = None,
    names_of: str | None = None,
    on_damage: Literal["keep", "fail"] = "keep",
) -> Scan:
    """Return a scan of captured Kafka traffic; by default, each row is a call (docs/captures.md, docs/scans.md).

    Args:
        paths: A pcap or pcapng file (plain, gzip, zstd or lz4), a directory with the files of a rotating recorder, or a
            pattern. Several files or directories are read as one capture.
        table: ``calls``, ``connections``, ``gaps``, ``packets`` or ``records``.
        api: Name of an API. Only its calls are read, with ``request`` and ``response`` as structs instead of JSON.
        ports: Listener ports of the brokers. By default, Kafka connections are detected by their bytes.
        secrets: Whether credentials are shown (SASL tokens, SCRAM, HMACs of delegation tokens, passwords in
            configurations).
        specs: Custom message specifications. The built-in specifications apply to APIs and versions that these lack.
        names_of: A Kafka release. The columns ``requestNamed`` and ``responseNamed`` are added, with the field names of
            that release.
        on_damage: ``keep`` reads all readable data and reports the rest in ``errors``. ``fail`` raises an error at the
            first unread data that may contain a call.

    Raises:
        OptionError: A table, API, release or value does not exist.
    """
    from kafkaframes.capture.reader import ON_DAMAGE_VALUES, CaptureOptions
    from kafkaframes.capture.streams import parse_ports
    from kafkaframes.protocol.messages.registry import ApiRegistry
    from kafkaframes.scan.capture import CaptureReadOptions, CaptureSource
    from kafkaframes.scan.scan import Scan
    from kafkaframes.scan.selection import check_choice

    check_choice("on_damage", on_damage, ON_DAMAGE_VALUES)
    listening = parse_ports(ports)
    read = CaptureOptions(
        table=table,
        api=api,
        ports=listening,
        secrets=secrets,
        apis=ApiRegistry(specs),
        names_of=names_of,
        on_damage=on_damage,
    )
    read.select_columns()
    return Scan(CaptureSource(CaptureReadOptions(tuple(to_path_list(paths)), read)))


def read_records(
    source: bytes | bytearray | memoryview | Path | Sequence[Path],
    *,
    columns: Sequence[str] | None = None,
    topics: str | Sequence[str] = (),
    partitions: int | Sequence[int] = (),
    start: Limit = None,
    end: Limit = None,
    isolation: Isolation = "read_uncommitted",
    control_records: bool = True,
    on_damage: OnDamage = "keep",
    verify_crc: bool = True,
    fail_on_data_loss: bool = True,
    replicas: Literal["merge", "all"] = "merge",
    key_files: Sequence[str] = (),
    follow_links: bool = False,
    limit_bytes: int | None = None,
    budget_bytes: int | None = None,
) -> RecordBatches:
    """Return an iterator over the records of ``source`` as Arrow record batches of a few megabytes.

    For paths this is short for ``scan_log(...).select(...).to_batches()``. By default, as in an inspection tool,
    records of all transactions and control records are returned (docs/selecting.md).

    >>> kafkaframes.read_records("/backup/kafka-logs", topics=["orders"]).to_pandas()  # doctest: +SKIP

    Args:
        source: Bytes, which are read with the rules of Kafka's memory iterator; or paths, URLs or patterns, which are
            read with the rules of its file iterator. Paths are segments, partition directories, log directories, their
            parent directories or tiered stores.
        columns: ``offset, timestamp, timestamp_type, key, value, headers`` by default, for directories with
            ``topic, partition`` before them. Other columns are ``base_offset, position, magic, codec, producer_id,
            producer_epoch, sequence, leader_epoch, transactional, control, crc_ok, last_offset, batch_size,
            delete_horizon, key_size, value_size``. A column that is not selected is not decoded.
        topics: Topic names or patterns, for directories. Default: all topics except Kafka's internal topics.
        partitions: Partition numbers in each of these topics. Default: all.
        start, end: As for ``scan_log``. Bytes have one range: an offset, a time, ``"earliest"`` or ``"latest"``.
        isolation: As for ``scan_log``. ``read_committed`` is not available for bytes and single segments.
        control_records: Whether transaction markers and other control records are returned.
        on_damage: ``keep`` returns the records that Kafka's reader returns: of a damaged batch, the records before the
            damage. ``drop`` omits damaged batches, and ``fail`` raises an error at the first damage.
        verify_crc: Whether a wrong CRC counts as damage. With ``keep``, the records of the batch are still returned.
        fail_on_data_loss: Whether an offset in ``start`` or ``end`` that the log no longer has is an error.
        replicas: ``merge`` combines the segments of a partition in several directories to one log
            (docs/many-copies.md). ``all`` reads each file as it is.
        key_files: Private RSA keys (``path`` or ``id=path``) of encrypted tiered segments. For an encrypted segment,
            pass the path of its ``.log`` object.
        follow_links: Whether symbolic links in directories are followed. If False, symbolic links are ignored.
        limit_bytes: Largest size of a decompressed batch, 512 MiB by default. A larger batch counts as damage.
        budget_bytes: Largest total memory of the batches that are decompressed at the same time, 256 MiB by default.
            The budget covers the records and the state of the reader. A batch that needs more is decompressed alone.

    Returns:
        An iterator with ``schema``, ``errors`` (the damage found so far: file, position, reason) and ``notes`` (records
        that an open transaction hides). The iterator's methods ``read_all()`` and ``to_pandas()`` return a ``pa.Table``
        and a DataFrame. The iterator is also an Arrow stream, which ``polars.from_arrow``, DuckDB and pandas accept.

    Raises:
        OptionError: A column or a value does not exist; while iterating: an offset of the range is lost.
        LogDirError: While iterating: a file cannot be read.
        CorruptRecordError: While iterating: the log is damaged and ``on_damage`` is ``fail``.
    """
    from kafkaframes.records.columns import DEFAULT_COLUMNS
    from kafkaframes.scan.log.memory import BYTES_TYPES, read_bytes
    from kafkaframes.scan.selection import ISOLATIONS, Selection, check_choice

    check_choice("isolation", isolation, ISOLATIONS)
    if isinstance(source, BYTES_TYPES):
        selection = Selection(
            topics=topics,
            partitions=partitions,
            start=start,
            end=end,
            isolation=isolation,
            control_records=control_records,
            on_damage=on_damage,
        )
        return read_bytes(
            source,
            DEFAULT_COLUMNS if columns is None else columns,
            selection,
            verify_crc=verify_crc,
            limit_bytes=limit_bytes,
            budget_bytes=budget_bytes,
        )
    scan = scan_log(
        source,
        topics=topics,
        partitions=partitions,
        start=start,
        end=end,
        isolation=isolation,
        control_records=control_records,
        on_damage=on_damage,
        verify_crc=verify_crc,
        fail_on_data_loss=fail_on_data_loss,
        replicas=replicas,
        key_files=key_files,
        follow_links=follow_links,
        limit_bytes=limit_bytes,
        budget_bytes=budget_bytes,
    )
    default = DEFAULT_COLUMNS if scan.source.is_file_list else scan.columns
    return scan.select(*(default if columns is None else columns)).to_batches()


def read_batches(
    source: bytes | bytearray | memoryview | Path | Sequence[Path], *, key_files: Sequence[str] = ()
) -> pa.Table:
    """Return a table with a row for each batch of ``source``.

    Only batch headers are read, and no batch is decompressed.

    If ``source`` is paths, the first column is ``file``.

    Args:
        source: Bytes, the path of a segment, or several paths, as for :func:`read_records`.
        key_files: Private RSA keys (``path`` or ``id=path``) of encrypted tiered segments.

    Raises:
        LogDirError: A file cannot be read.
    """
    from kafkaframes.scan.log.memory import BYTES_TYPES
    from kafkaframes.scan.log.memory import read_batches as read

    return read(source if isinstance(source, BYTES_TYPES) else to_path_list(source), key_files=key_files)


def read_capture(
    source: Path | Sequence[Path],
    *,
    table: str = "calls",
    columns: Sequence[str] | None = None,
    api: str | None = None,
    ports: Sequence[int] | str = (),
    secrets: bool = False,
    specs: Specs | None = None,
    names_of: str | None = None,
    on_damage: Literal["keep", "fail"] = "keep",
) -> RecordBatches:
    """Return an iterator over captured Kafka traffic as Arrow record batches (docs/captures.md).

    This is short for ``scan_capture(...).select(...).to_batches()``.

    Args:
        source: A pcap or pcapng file (plain, gzip, zstd or lz4), a directory with the files of a rotating recorder, or
            a pattern. Several files or directories are read as one capture.
        table: ``calls``, ``connections``, ``gaps``, ``packets`` or ``records``.
        columns: Columns of that table. A column that is not selected is not decoded.
        api: Name of an API. Only its calls are read, with ``request`` and ``response`` as structs instead of JSON.
        ports: Listener ports of the brokers. By default, Kafka connections are detected by their bytes.
        secrets: Whether credentials are shown (SASL tokens, SCRAM, HMACs of delegation tokens, passwords in
            configurations).
        specs: Custom message specifications. The built-in specifications apply to APIs and versions that these lack.
        names_of: A Kafka release. The columns ``requestNamed`` and ``responseNamed`` are added, with the field names of
            that release.
        on_damage: ``keep`` reads all readable data and reports the rest in ``errors``. ``fail`` raises an error at the
            first unread data that may contain a call.

    Returns:
        An iterator with ``schema``, ``read_all()``, ``to_pandas()`` and ``errors``. After the last row, ``errors``
        lists the unread data that may contain calls (kind, reason, file, amounts).

    Raises:
        OptionError: A path, table, column, API or release does not exist.
        DecodeError: While iterating: the only file is not a capture, or data could not be read and ``on_damage`` is
            ``fail``.
    """
    scan = scan_capture(
        source, table=table, api=api, ports=ports, secrets=secrets, specs=specs, names_of=names_of, on_damage=on_damage
    )
    return (scan if columns is None else scan.select(*columns)).to_batches()
