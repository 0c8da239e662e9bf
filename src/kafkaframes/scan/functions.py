"""The public functions that read. Each imports what it runs when it is called.

``import kafkaframes`` costs next to nothing: a test holds it free of numba, pyarrow and pyspark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal

from kafkaframes.errors import OptionError

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
    """Return a scan of the records of a log: of log directories, backups, tiered stores, segments (docs/scans.md).

    >>> scan_log("/backup/*", topics="orders").where(partition=0).select("offset", "value")
    scan of log /backup/*; where partition 0; columns offset, value

    Nothing is read yet. Rows have ``topic``, ``partition``, ``offset``, ``timestamp``, ``timestamp_type``, ``key``,
    ``value`` and ``headers``; ``select`` chooses others: ``file`` and the columns of ``read_records``.

    Args:
        paths: directories, segments, patterns or URLs. Segments that are listed one by one are read in that order.
        topics: topic names or patterns. Default: all topics except Kafka's own.
        partitions: partition numbers, in each of these topics. Default: all.
        start, end: the range in each partition: ``"earliest"``, ``"latest"``, an offset, a time (a datetime, a date or
            text; UTC without a zone), or an offset or a time for each partition: ``{"orders": {0: 17}}``. A time is
            looked up as ListOffsets does. ``end`` itself is not read.
        isolation: ``read_committed`` omits the records of aborted transactions, and all records after the first open
            one. Default: ``read_committed``, and ``read_uncommitted`` for single segments (docs/selecting.md).
        control_records: whether transaction markers and other control records are returned.
        on_damage: ``keep`` returns what Kafka's reader returns, ``drop`` omits damaged batches, ``fail`` raises at the
            first damage.
        verify_crc: whether a wrong CRC counts as damage.
        fail_on_data_loss: whether it is an error if the log has lost offsets that ``start`` or ``end`` names.
        replicas: ``merge`` makes one log of the copies of a partition (docs/many-copies.md); ``all`` reads each.
        key_files: private RSA keys of encrypted tiered segments.
        follow_links: read what symbolic links in directories lead to.
        storage: what fsspec's constructor takes, where paths are URLs.
        limit_bytes: the largest size of a decompressed batch, 512 MiB by default; a larger batch counts as damage.
        budget_bytes: the most memory for batches that are open at once, 256 MiB by default.

    Raises:
        OptionError: an option does not exist or does not fit.
    """
    from kafkaframes.records.limits import DEFAULT_BUDGET_BYTES, DEFAULT_LIMIT_BYTES
    from kafkaframes.scan.log.options import ReadOptions
    from kafkaframes.scan.log.source import log_source
    from kafkaframes.scan.ranges import check_batch_start
    from kafkaframes.scan.scan import Scan
    from kafkaframes.scan.selection import Selection, check_choice
    from kafkaframes.storage.files.filesystem import FOLLOW_LINKS, KEY_FILES

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
    keys: dict[str, Any] = {KEY_FILES: tuple(key_files)} if key_files else {}
    links = {FOLLOW_LINKS: True} if follow_links else {}
    options = ReadOptions(
        _paths(paths),
        **selection.log_fields(),
        no_match="latest",
        fail_on_data_loss=fail_on_data_loss,
        replicas=replicas,
        verify_crc=verify_crc,
        limit_bytes=DEFAULT_LIMIT_BYTES if limit_bytes is None else limit_bytes,
        budget_bytes=DEFAULT_BUDGET_BYTES if budget_bytes is None else budget_bytes,
        storage={**(storage or {}), **keys, **links},
    )
    return Scan(log_source(options, selection.topic_names, as_log=selection.needs_log))


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
    """Return a scan of the records of live topics, without a group (docs/scans.md).

    Each run asks the cluster for the end of each partition and reads up to it. Records that arrive later are not read.
    Rows are as those of ``scan_log``.

    Args:
        servers: ``host:port``, several with commas, or a list of them.
        topics: topic names or patterns.
        partitions: partition numbers, in each of these topics. Default: all.
        start, end: as of ``scan_log``; ``"group:NAME"`` starts at the committed offsets of a consumer group.
        isolation: ``read_committed`` omits the records of aborted transactions, and all records after the first open
            one.
        control_records: whether transaction markers and other control records are returned.
        on_damage: as of ``scan_log``.
        fail_on_data_loss: whether it is an error if the topic has lost offsets of the range.
        client: more settings of a consumer under Kafka's names, such as ``{"security.protocol": "SSL"}``.

    Raises:
        OptionError: an option does not exist or does not fit.
    """
    from kafkaframes.client.settings import ConsumerSettings
    from kafkaframes.scan.scan import Scan
    from kafkaframes.scan.selection import ISOLATIONS, Selection, check_choice
    from kafkaframes.scan.topic.options import TopicOptions
    from kafkaframes.scan.topic.source import TopicSource

    check_choice("isolation", isolation, ISOLATIONS)
    selection = Selection(
        topics=topics,
        partitions=partitions,
        start=start,
        end=end,
        isolation=isolation,
        control_records=control_records,
        on_damage=on_damage,
    )
    if not selection.topic_names:
        raise OptionError("`topics` names no topic")
    servers = servers if isinstance(servers, str) else ",".join(servers)
    settings = {**(client or {}), "bootstrap.servers": servers, "isolation.level": isolation}
    ConsumerSettings.of(settings)
    return Scan(
        TopicSource(
            TopicOptions(settings, **selection.topic_fields(), no_match="latest", fail_on_data_loss=fail_on_data_loss)
        )
    )


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
    """Return a scan of recorded Kafka traffic, a row for each call by default (docs/captures.md, docs/scans.md).

    Args:
        paths: a pcap or pcapng file (plain, gzip, zstd, lz4), a directory of a rotating recorder's files, a pattern,
            or several of these, which belong together.
        table: ``calls``, ``connections``, ``gaps``, ``packets`` or ``records``.
        api: calls of this API only, with ``request`` and ``response`` as structs instead of JSON.
        ports: on which brokers listen; by default the bytes of a connection show whether it is Kafka.
        secrets: show credentials (SASL tokens, SCRAM, HMACs of tokens, passwords in configurations).
        specs: your own specs; what they lack (an API, a version) is read by the catalog's.
        names_of: a release of Kafka: beside ``request`` and ``response`` the columns ``requestNamed`` and
            ``responseNamed`` have the names that it gave to fields.
        on_damage: ``keep`` reads what can be read, and the rest is in ``errors``; ``fail`` raises at the first data
            that were not read and may hide a call.

    Raises:
        OptionError: a table, API, release or value does not exist.
    """
    from kafkaframes.capture.reader import ON_DAMAGE, CaptureOptions
    from kafkaframes.capture.streams import ports_of
    from kafkaframes.protocol.messages.registry import Apis
    from kafkaframes.scan.capture import CaptureSource, SourceOptions
    from kafkaframes.scan.scan import Scan
    from kafkaframes.scan.selection import check_choice

    check_choice("on_damage", on_damage, ON_DAMAGE)
    listening = ports_of(ports)
    read = CaptureOptions(
        table=table, api=api, ports=listening, secrets=secrets, apis=Apis(specs), names_of=names_of, on_damage=on_damage
    )
    read.chosen()
    return Scan(CaptureSource(SourceOptions(_paths(paths), read)))


def _paths(paths: Path | Sequence[Path]) -> tuple[str, ...]:
    return (fspath(paths),) if isinstance(paths, str | PathLike) else tuple(fspath(path) for path in paths)


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
    """Return an iterator over the records of ``source`` as Arrow record batches of some megabytes.

    For paths this is short for ``scan_log(...).select(...).to_batches()``, with the defaults of a tool that shows what
    the bytes hold: all transactions, and control records, too (docs/selecting.md).

    >>> kafkaframes.read_records("/backup/kafka-logs", topics=["orders"]).to_pandas()  # doctest: +SKIP

    Args:
        source: bytes, read by the rules of Kafka's memory iterator; or paths, URLs or patterns, read by those of its
            file iterator: segments, partitions' directories, log directories, directories of such, tiered stores.
        columns: ``offset, timestamp, timestamp_type, key, value, headers`` by default, and for directories
            ``topic, partition`` before them. There are also ``base_offset, position, magic, codec, producer_id,
            producer_epoch, sequence, leader_epoch, transactional, control, crc_ok, last_offset, batch_size,
            delete_horizon, key_size, value_size``. A column that is not selected is not decoded.
        topics: topic names or patterns, for directories. Default: all topics except Kafka's own.
        partitions: partition numbers, in each of these topics. Default: all.
        start, end: as of ``scan_log``. Bytes have one range: an offset, a time, ``"earliest"`` or ``"latest"``.
        isolation: as of ``scan_log``. Bytes and single segments cannot be read committed.
        control_records: whether transaction markers and other control records are returned.
        on_damage: ``keep`` returns what Kafka's reader returns (the records before the damage in a damaged batch),
            ``drop`` omits damaged batches, ``fail`` raises at the first damage.
        verify_crc: whether a wrong CRC counts as damage. With ``keep`` such a batch's records are still returned.
        fail_on_data_loss: whether it is an error if a log has lost offsets that ``start`` or ``end`` names.
        replicas: ``merge`` makes one log of segments of one partition in several directories
            (docs/many-copies.md); ``all`` reads each file as it is.
        key_files: private RSA keys (``path`` or ``id=path``) of encrypted tiered segments. Name such a segment by its
            ``.log`` object.
        follow_links: read what symbolic links in directories lead to; otherwise they are left out.
        limit_bytes: the largest size of a decompressed batch, 512 MiB by default; a larger batch counts as damage.
        budget_bytes: the most memory for batches that are open at once, 256 MiB by default: their decompressed records
            and what is kept of each. A batch that needs more is opened alone.

    Returns:
        An iterator with ``schema``, ``errors`` (the damage so far: file, position, reason) and ``notes`` (records that
        an open transaction hides). It has ``read_all()`` (a ``pa.Table``) and ``to_pandas()``, and is an Arrow stream:
        ``polars.from_arrow``, DuckDB and pandas take it as it is.

    Raises:
        OptionError: a column or a value does not exist; (while iterating) an offset of the range is lost.
        LogDirError: (while iterating) a file cannot be read.
        CorruptRecordError: (while iterating) damage, with on_damage=fail.
    """
    from kafkaframes.records.columns import DEFAULT_COLUMNS
    from kafkaframes.scan.log.memory import IN_MEMORY, read_bytes
    from kafkaframes.scan.selection import ISOLATIONS, Selection, check_choice

    check_choice("isolation", isolation, ISOLATIONS)
    if isinstance(source, IN_MEMORY):
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
    default = DEFAULT_COLUMNS if scan.source.is_files else scan.columns
    return scan.select(*(default if columns is None else columns)).to_batches()


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
    from kafkaframes.scan.log.memory import IN_MEMORY
    from kafkaframes.scan.log.memory import read_batches as read

    return read(source if isinstance(source, IN_MEMORY) else _paths(source), key_files=key_files)


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
    """Return an iterator over recorded Kafka traffic as Arrow record batches (docs/captures.md).

    This is short for ``scan_capture(...).select(...).to_batches()``.

    Args:
        source: a pcap or pcapng file (plain, gzip, zstd, lz4), a directory of a rotating recorder's files, a pattern,
            or several of these, which belong together.
        table: ``calls``, ``connections``, ``gaps``, ``packets`` or ``records``.
        columns: of that table; what is not asked for is not decoded.
        api: calls of this API only, with ``request`` and ``response`` as structs instead of JSON.
        ports: on which brokers listen; by default the bytes of a connection show whether it is Kafka.
        secrets: show credentials (SASL tokens, SCRAM, HMACs of tokens, passwords in configurations).
        specs: your own specs; what they lack (an API, a version) is read by the catalog's.
        names_of: a release of Kafka: beside ``request`` and ``response`` the columns ``requestNamed`` and
            ``responseNamed`` have the names that it gave to fields.
        on_damage: ``keep`` reads what can be read, and the rest is in ``errors``; ``fail`` raises at the first data
            that were not read and may hide a call.

    Returns:
        An iterator with ``schema``, ``read_all()``, ``to_pandas()``, and ``errors``: once all rows are read, the data
        that were not read and may hide a call (kind, reason, file, amounts).

    Raises:
        OptionError: a path, table, column, API or release does not exist.
        DecodeError: (while iterating) the only file is not a capture; or, with on_damage=fail, data were not read.
    """
    scan = scan_capture(
        source, table=table, api=api, ports=ports, secrets=secrets, specs=specs, names_of=names_of, on_damage=on_damage
    )
    return (scan if columns is None else scan.select(*columns)).to_batches()
