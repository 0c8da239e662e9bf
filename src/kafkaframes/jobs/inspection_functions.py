"""Functions for the commands dump-log and grep, and for ``compact --prove-gone``. Each function imports its code when
it is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from kafkaframes.errors import OptionError
from kafkaframes.jobs.dump.names import MAX_CHECKED_BATCH_BYTES, NEWEST_STYLE
from kafkaframes.jobs.job import JobResult
from kafkaframes.jobs.settings import Paths
from kafkaframes.storage.files.names import escape_unprintable
from kafkaframes.storage.files.paths import to_path_list

if TYPE_CHECKING:
    from kafkaframes.jobs.compact.key_search import KeySearchResult
    from kafkaframes.jobs.dump.dump import LogDump
    from kafkaframes.scan.ranges import Limit
    from kafkaframes.scan.rows import RecordBatches
    from kafkaframes.scan.selection import Isolation, OnDamage


def dump_log(
    paths: Paths,
    *,
    format: Literal["text", "jsonl", "csv", "arrow", "envelopes"] = "text",  # noqa: A002 (as the command's flag)
    pattern: str | None = None,
    topics: str | Sequence[str] = (),
    partitions: int | Sequence[int] = (),
    start: Limit = None,
    end: Limit = None,
    offsets: Sequence[str] = (),
    count: int | None = None,
    keys: Sequence[bytes] = (),
    key_regex: str | None = None,
    kinds: Sequence[Literal["log", "checkpoint", "index", "timeindex", "snapshot", "txnindex"]] = (),
    deep_iteration: bool = False,
    print_data_log: bool = False,
    skip_record_metadata: bool = False,
    index_sanity_check: bool = False,
    verify_index_only: bool = False,
    max_bytes: int | None = None,
    max_message_size: int = MAX_CHECKED_BATCH_BYTES,
    decoder: Literal["offsets", "transaction-log", "cluster-metadata", "remote-log-metadata", "share-group-state"]
    | None = None,
    style: str = NEWEST_STYLE,
    full_values: bool = False,
    base64: bool = False,
    replicas: Literal["merge", "all"] = "merge",
    key_files: Sequence[str] = (),
    follow_links: bool = False,
    storage: Mapping[str, Any] | None = None,
) -> LogDump:
    """Print files of logs (segments, indexes, snapshots) as kafka-dump-log does, or as data.

    The files are found when the function is called, and are read while the result is iterated.

    >>> dump_log("/logs/orders-0", print_data_log=True).read_all().decode()  # doctest: +SKIP
    'Dumping /logs/orders-0/00000000000000000000.log\\nLog starting offset: 0\\n...'

    Args:
        paths: files, partition directories, log directories, glob patterns, tiered stores, or their URLs.
        format: text has the form of kafka-dump-log; jsonl has a JSON object for each batch, record, error and end; csv
            and arrow have the records; envelopes are kcat's JSON envelopes, one record a line.
        pattern: kcat's format string for records, such as ``"%t/%p@%o %k: %s\\n"``. It replaces ``format``.
        topics: topic names or patterns. Default: all.
        partitions: partition numbers to read from each topic. Default: all.
        start: first record in each partition, as in ``scan_log``, or "latest".
        end: end of the records (exclusive), as in ``scan_log``.
        offsets: positions in kcat's form: beginning, end, N, -N (the last N records of each partition), s@MS, e@MS.
        count: largest number of records to print. Default: all.
        keys: keys of the records to select. Default: all.
        key_regex: regular expression that a record's key has to match.
        kinds: kinds of the files that are printed from directories. Default: log and checkpoint; with
            ``index_sanity_check`` or ``verify_index_only``, index and timeindex.
        deep_iteration: text only: print the records of each batch.
        print_data_log: text only: print keys and payloads.
        skip_record_metadata: text only: print only the key and payload of a record.
        index_sanity_check: indexes only: check only what a broker checks when it starts.
        verify_index_only: indexes only: compare the index with its segment, and do not print its entries.
        max_bytes: read only the batches in the first bytes of each segment.
        max_message_size: indexes only: number of bytes of the segment that are read for each index entry.
        decoder: text only: internal topic whose keys and payloads are decoded.
        style: text only: Kafka release whose output is printed.
        full_values: jsonl only: print values in full, even those above 200 bytes. Default: their SHA-256.
        base64: csv only: write keys, values and header values in base64, which preserves every byte.
        replicas: ``merge`` prints several copies of a partition as one log. ``all`` prints each copy separately.
        key_files: private RSA keys (PEM, ``path`` or ``id=path``) of encrypted tiered segments.
        follow_links: whether to follow symbolic links in directories. By default, links are skipped.
        storage: keyword arguments of fsspec's filesystem constructor.

    Returns:
        An iterator over the output in bytes. Attributes of the iterator: ``errors`` lists the damage found so far,
        ``notes`` lists the lines that kafka-dump-log writes to standard error, and ``decisions`` describes how copies
        were merged. ``read_all()`` returns the whole output.

    Raises:
        LogDirError: a path does not exist, or is not a file of a log.
        OptionError: a topic, a partition or a setting does not exist, or two settings contradict each other.
    """
    from kafkaframes.jobs.dump.dump import DumpSettings, LogDump
    from kafkaframes.jobs.dump.styles import TextOptions

    text = TextOptions(
        style=style,
        deep_iteration=deep_iteration,
        print_data_log=print_data_log,
        skip_record_metadata=skip_record_metadata,
        index_sanity_check=index_sanity_check,
        verify_index_only=verify_index_only,
        max_bytes=max_bytes,
        max_message_size=max_message_size,
        decoder=decoder or "",
    )
    settings = DumpSettings(
        format=format,
        pattern=pattern,
        topics=topics,
        partitions=partitions,
        start=start,
        end=end,
        offsets=offsets,
        count=count,
        keys=keys,
        key_regex=key_regex,
        kinds=kinds,
        text=text,
        full_values=full_values,
        base64=base64,
        replicas=replicas,
        key_files=key_files,
        follow_links=follow_links,
        store=storage,
    )
    return LogDump(to_path_list(paths), settings)


def grep_log(
    paths: Paths,
    pattern: str,
    *,
    fixed_strings: bool = False,
    ignore_case: bool = False,
    fields: Sequence[Literal["key", "value", "headers"]] = (),
    max_count: int | None = None,
    follow: bool = False,
    topics: str | Sequence[str] = (),
    partitions: int | Sequence[int] = (),
    start: Limit = None,
    end: Limit = None,
    isolation: Isolation = "read_uncommitted",
    control_records: bool = False,
    on_damage: OnDamage = "keep",
    replicas: Literal["merge", "all"] = "merge",
    key_files: Sequence[str] = (),
    follow_links: bool = False,
    storage: Mapping[str, Any] | None = None,
) -> RecordBatches:
    """Find the records whose key, value or headers match a pattern.

    >>> grep_log("/backup/kafka-logs", "order-17", topics="orders").read_all()["offset"]  # doctest: +SKIP
    [[17, 1017]]

    Args:
        paths: log directories, partition directories, segments, glob patterns, tiered stores, or their URLs.
        pattern: regular expression (RE2), which may match any part of a field. Fields are bytes, and the pattern is
            UTF-8.
        fixed_strings: whether ``pattern`` is plain text instead of a regular expression.
        ignore_case: whether to ignore case: in regular expressions of all letters, in plain text of ASCII letters.
        fields: parts of a record to search: ``key``, ``value``, ``headers``. Default: all three.
        max_count: largest number of records to return. Default: all.
        follow: whether to wait for appended records after the existing ones. The iterator then never ends, and returns
            an empty batch after each read, so that the caller can stop. ``end`` is not allowed, and ``isolation``,
            ``control_records`` and ``on_damage`` must have their defaults.
        topics: topic names or patterns. Default: all topics except Kafka's internal topics.
        partitions: partition numbers to read from each topic. Default: all.
        start: first record in each partition, as in ``scan_log``. With ``follow`` also "latest".
        end: end of the records (exclusive), as in ``scan_log``.
        isolation: ``read_committed`` omits the records of aborted transactions, and all records from the first open
            transaction on.
        control_records: whether to search transaction markers and other control records.
        on_damage: ``keep`` searches the records that Kafka's reader returns, ``drop`` omits damaged batches, ``fail``
            raises at the first damage.
        replicas: ``merge`` combines the replicas of a partition into one log. ``all`` reads each replica separately.
        key_files: private RSA keys (PEM, ``path`` or ``id=path``) of encrypted tiered segments.
        follow_links: whether to follow symbolic links in directories. By default, links are skipped.
        storage: keyword arguments of fsspec's filesystem constructor.

    Returns:
        An iterator over Arrow record batches with topic, partition, offset, timestamp, timestamp_type, key, value and
        headers. ``errors`` lists the damage found so far, and ``notes`` describes the records that an open transaction
        hides. ``read_all()`` returns a ``pa.Table``. Polars, DuckDB and pandas accept the iterator as an Arrow stream.

    Raises:
        LogDirError: while iterating: a path does not exist or cannot be read.
        OptionError: the pattern is not a regular expression, or a setting is invalid.
        CorruptRecordError: while iterating: the log is damaged and ``on_damage`` is ``fail``.
    """
    from kafkaframes.jobs.dump.search import GrepSettings, Pattern, follow_log, search_log
    from kafkaframes.scan.selection import ISOLATIONS, Selection, check_choice

    check_choice("isolation", isolation, ISOLATIONS)
    settings = GrepSettings(
        pattern=Pattern.from_text(pattern, is_plain=fixed_strings, ignores_case=ignore_case),
        fields=(fields,) if isinstance(fields, str) else tuple(fields),
        max_count=max_count,
        selection=Selection(
            topics=topics,
            partitions=partitions,
            start=start,
            end=end,
            isolation=isolation,
            control_records=control_records,
            on_damage=on_damage,
        ),
        replicas=replicas,
        key_files=key_files,
        follow_links=follow_links,
        store=storage,
    )
    return (follow_log if follow else search_log)(to_path_list(paths), settings)


def prove_key_gone(
    paths: Paths, key: bytes, *, key_files: Sequence[str] = (), follow_links: bool = False
) -> JobResult[KeySearchResult]:
    """Search for a key in every record of every file of logs, to prove that no record has it.

    Snapshots, renamed directories and segments, and temporary files are searched as well. Only keys are searched.

    >>> prove_key_gone("/backup/compacted", b"user-17")  # doctest: +SKIP
    proven gone: no record has the key; 12 files were read

    Args:
        paths: log directories, partition directories or segments. All copies of a partition are searched.
        key: the key.
        key_files: private RSA keys (PEM, ``path`` or ``id=path``) of encrypted tiered segments.
        follow_links: whether to follow symbolic links in directories. By default, links are skipped.

    Returns:
        A result whose ``report`` has ``is_gone``, the records with the key, and the data that could not be read, which
        prevents a proof.

    Raises:
        LogDirError: a path does not exist or does not contain a log.
        OptionError: ``paths`` is empty, or the key is not bytes.
    """
    from kafkaframes.jobs.compact.key_search import search_for_key
    from kafkaframes.storage.files.filesystem import storage_options

    if not isinstance(key, bytes):
        raise OptionError(f"`key` is {key!r}; expected bytes")
    path_list = to_path_list(paths)
    source = path_list[0] if len(path_list) == 1 else path_list
    report = search_for_key(source, key, storage=storage_options(key_files, follow_links=follow_links))
    return JobResult(report, report.to_dict(), tuple(map(escape_unprintable, report.lines)))
