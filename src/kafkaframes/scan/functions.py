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

Path = str | PathLike[str]
OnDamage = Literal["keep", "drop", "fail"]
Isolation = Literal["read_uncommitted", "read_committed"]


def scan_log(
    paths: Path | Sequence[Path],
    *,
    topics: str | Sequence[str] = (),
    start: Limit = None,
    end: Limit = None,
    isolation: Isolation = "read_uncommitted",
    on_damage: OnDamage = "keep",
    verify_crc: bool = True,
    control_records: bool = False,
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
        paths: directories, segments, patterns or URLs of such. Segments named one by one are read in that order.
        topics: names or patterns; by default those that are not Kafka's own.
        start, end: what is planned: ``"earliest"``, ``"latest"``, an offset, a time (a datetime, a date or text; UTC
            without a zone), or an offset or a time for each partition: ``{"orders": {0: 17}}``. The end is exclusive.
        isolation: ``read_committed`` leaves out what was aborted, and what lies behind an open transaction.
        on_damage: ``keep`` returns what Kafka's reader returns, ``drop`` leaves damaged batches out, ``fail`` raises at
            the first damage.
        verify_crc: whether a wrong CRC counts as damage.
        control_records: whether transaction markers and the like are among the records.
        fail_on_data_loss: whether it is an error if the log has lost offsets that ``start`` or ``end`` name.
        replicas: ``merge`` makes one log of the copies of a partition (docs/many-copies.md); ``all`` reads each.
        key_files: private RSA keys of encrypted tiered segments.
        follow_links: read what symbolic links in directories lead to.
        storage: what fsspec's constructor takes, where paths are URLs.
        limit_bytes: the largest size of a decompressed batch, 512 MiB by default; what is beyond is damage.
        budget_bytes: the most memory for batches that are open at once, 256 MiB by default.

    Raises:
        OptionError: an option does not exist or does not fit.
    """
    from kafkaframes.records.limits import DEFAULT_BUDGET_BYTES, DEFAULT_LIMIT_BYTES
    from kafkaframes.scan.log.options import ReadOptions, topic_choice
    from kafkaframes.scan.log.source import log_source
    from kafkaframes.scan.ranges import EARLIEST, LATEST, check_batch_start, log_bound
    from kafkaframes.scan.scan import Scan
    from kafkaframes.storage.files.filesystem import FOLLOW_LINKS, KEY_FILES

    _check("on_damage", on_damage, ("keep", "drop", "fail"))
    _check("replicas", replicas, ("merge", "all"))
    _check("isolation", isolation, ("read_uncommitted", "read_committed"))
    first, last = log_bound("start", start, unset=EARLIEST), log_bound("end", end, unset=LATEST)
    check_batch_start(first)
    chosen = [topics] if isinstance(topics, str) else list(topics)
    keys: dict[str, Any] = {KEY_FILES: tuple(key_files)} if key_files else {}
    links = {FOLLOW_LINKS: True} if follow_links else {}
    options = ReadOptions(
        _paths(paths),
        **topic_choice(chosen),
        start=first,
        end=last,
        no_match="latest",
        fail_on_data_loss=fail_on_data_loss,
        isolation=isolation,
        include_control=control_records,
        replicas=replicas,
        on_damage=on_damage,
        verify_crc=verify_crc,
        limit_bytes=DEFAULT_LIMIT_BYTES if limit_bytes is None else limit_bytes,
        budget_bytes=DEFAULT_BUDGET_BYTES if budget_bytes is None else budget_bytes,
        storage={**(storage or {}), **keys, **links},
    )
    needs_log = bool(chosen) or (first, last) != (EARLIEST, LATEST) or isolation == "read_committed"
    return Scan(log_source(options, chosen, as_log=needs_log))


def scan_topic(
    servers: str | Sequence[str],
    topics: str | Sequence[str],
    *,
    start: Limit = None,
    end: Limit = None,
    isolation: Isolation = "read_committed",
    fail_on_data_loss: bool = True,
    client: Mapping[str, Any] | None = None,
) -> Scan:
    """Return a scan of the records of live topics, without a group (docs/scans.md).

    Each run asks the cluster where partitions end, and reads up to there: no record is read that comes later. Rows are
    as those of ``scan_log``.

    Args:
        servers: ``host:port``, several with commas, or a list of them.
        topics: names or patterns.
        start, end: as of ``scan_log``; ``"group:NAME"`` starts where a consumer group has committed.
        isolation: ``read_committed`` leaves out what was aborted, and what lies behind an open transaction.
        fail_on_data_loss: whether it is an error if the topic has lost offsets that are to be read.
        client: more settings of a consumer under Kafka's names, such as ``{"security.protocol": "SSL"}``.

    Raises:
        OptionError: an option does not exist or does not fit.
    """
    from kafkaframes.client.settings import ConsumerSettings
    from kafkaframes.scan.log.options import topic_choice
    from kafkaframes.scan.ranges import EARLIEST, LATEST, AtGroup, bound_of
    from kafkaframes.scan.scan import Scan
    from kafkaframes.scan.topic.options import TopicOptions
    from kafkaframes.scan.topic.source import TopicSource

    _check("isolation", isolation, ("read_uncommitted", "read_committed"))
    last = bound_of("end", end, unset=LATEST)
    if isinstance(last, AtGroup):
        raise OptionError("`end` cannot be a group; only `start` can")
    chosen = [topics] if isinstance(topics, str) else list(topics)
    if not chosen:
        raise OptionError("`topics` names no topic")
    servers = servers if isinstance(servers, str) else ",".join(servers)
    settings = {**(client or {}), "bootstrap.servers": servers, "isolation.level": isolation}
    ConsumerSettings.of(settings)
    first = bound_of("start", start, unset=EARLIEST)
    return Scan(
        TopicSource(
            TopicOptions(
                settings,
                **topic_choice(chosen),
                start=first,
                end=last,
                no_match="latest",
                fail_on_data_loss=fail_on_data_loss,
            )
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

    _check("on_damage", on_damage, ON_DAMAGE)
    listening = ports_of(ports)
    read = CaptureOptions(
        table=table, api=api, ports=listening, secrets=secrets, apis=Apis(specs), names_of=names_of, on_damage=on_damage
    )
    read.chosen()
    return Scan(CaptureSource(SourceOptions(_paths(paths), read)))


def _paths(paths: Path | Sequence[Path]) -> tuple[str, ...]:
    return (fspath(paths),) if isinstance(paths, str | PathLike) else tuple(fspath(path) for path in paths)


def _check(setting: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise OptionError(f"`{setting}` is {' or '.join(known)}, not {value!r}")


def read_records(
    source: bytes | bytearray | memoryview | Path | Sequence[Path],
    *,
    columns: Sequence[str] | None = None,
    on_damage: OnDamage = "keep",
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

    For paths this is short for ``scan_log(...).where(offset=offsets).select(...).to_batches()``.

    >>> kafkaframes.read_records("/backup/kafka-logs", topics=["orders"]).to_pandas()  # doctest: +SKIP

    Args:
        source: bytes, read by the rules of Kafka's memory iterator; or paths, URLs or patterns, read by those of its
            file iterator: segments, partitions' directories, log directories, directories of such, tiered stores.
        columns: ``offset, timestamp, timestamp_type, key, value, headers`` by default, and for directories
            ``topic, partition`` before them. There are also ``base_offset, position, magic, codec, producer_id,
            producer_epoch, sequence, leader_epoch, transactional, control, crc_ok, last_offset, batch_size,
            delete_horizon, key_size, value_size``. A column that is not asked for costs nothing.
        on_damage: ``keep`` returns what Kafka's reader returns (the records before the damage in a damaged batch),
            ``drop`` leaves damaged batches out, ``fail`` raises at the first damage.
        verify_crc: whether a wrong CRC counts as damage. With ``keep`` such a batch's records are still returned.
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
        OptionError: a column or a value does not exist.
        LogDirError: (while iterating) a file cannot be read.
        CorruptRecordError: (while iterating) damage, with on_damage=fail.
    """
    from kafkaframes.records.columns import DEFAULT_COLUMNS
    from kafkaframes.scan.log.memory import IN_MEMORY, read_bytes

    if isinstance(source, IN_MEMORY):
        return read_bytes(
            source,
            DEFAULT_COLUMNS if columns is None else columns,
            on_damage=on_damage,
            verify_crc=verify_crc,
            control_records=control_records,
            offsets=offsets,
            limit_bytes=limit_bytes,
            budget_bytes=budget_bytes,
        )
    scan = scan_log(
        source,
        topics=topics,
        on_damage=on_damage,
        verify_crc=verify_crc,
        control_records=control_records,
        replicas=replicas,
        key_files=key_files,
        follow_links=follow_links,
        limit_bytes=limit_bytes,
        budget_bytes=budget_bytes,
    ).where(offset=offsets)
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
