"""The public functions that read. Each imports what it runs when it is called.

``import kafkaframes`` costs next to nothing: a test holds it free of numba, pyarrow and pyspark.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkaframes.capture.reader import CaptureBatches
    from kafkaframes.protocol.messages.registry import Specs
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
    specs: Specs | None = None,
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
        specs: your own specs; what they lack (an API, a version) is read by the catalog's.

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
    from kafkaframes.protocol.messages.apis import Apis

    paths = [fspath(source)] if isinstance(source, str | PathLike) else [fspath(one) for one in source]
    options = CaptureOptions(
        table=table,
        columns=None if columns is None else tuple(columns),
        api=api,
        ports=ports_of(ports),
        secrets=secrets,
        apis=Apis(specs),
    )
    return read(paths, options)
