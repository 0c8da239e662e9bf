"""One selection: the same keywords select the same records in every function that reads."""

import datetime as dt
import inspect
import runpy
from pathlib import Path

import click
import pytest

import kafkaframes
from kafkaframes.cli.main import cli
from kafkaframes.client.settings import ConsumerSettings
from kafkaframes.errors import OptionError
from kafkaframes.scan.selection import READER_DEFAULTS, Selection

LOGS = Path(__file__).parent.parent / "data" / "logs"
EXAMPLE_LOG_DIR = Path(__file__).parent.parent / "data" / "examples" / "kafka-4.3"
TRANSACTIONS = LOGS / "kraft-4x-transactions"
START_MS = 1_700_000_000_000
TIMES = [START_MS + step for step in (0, 10, 5, 20, 15, 30)]  # later records can have older timestamps


_SETTINGS_OF_READS_ONLY = {"isolation", "control_records"}  # a copy of a log has all transactions, with their markers
READERS_WITHOUT_SETTINGS = {
    "verify_log": {"isolation", "control_records", "on_damage"},
    "dump_log": {"isolation", "control_records", "on_damage"},
    "convert_log": _SETTINGS_OF_READS_ONLY,
    "recompress_log": _SETTINGS_OF_READS_ONLY,
    "restore_log": _SETTINGS_OF_READS_ONLY,
    "compact_log": {"start", "end", "on_damage", *_SETTINGS_OF_READS_ONLY},  # docs/selecting.md explains why
    "mirror_topics": _SETTINGS_OF_READS_ONLY,
}
# These summarize whole partitions. The topics of a checkpoint are renamed.
WITHOUT_DEFAULTS = {"describe_log", "report_log", "export_log", "analyze_records", "convert_checkpoint"}


def write_log(directory: Path, times=TIMES) -> Path:
    partition = directory / "orders-0"
    partition.mkdir(parents=True)
    data = b"".join(
        kafkaframes.build_records({"value": [b"v"], "timestamp": [time]}, base_offset=offset)
        for offset, time in enumerate(times)
    )
    (partition / f"{0:020}.log").write_bytes(data)
    return directory


def offsets(batches) -> list[int]:
    return [offset for batch in batches for offset in batch.column(batch.schema.get_field_index("offset")).to_pylist()]


def moment(time_ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC)


FUNCTIONS = sorted(name for name in READER_DEFAULTS if name.isidentifier() and name != "Consumer")
# The commands that print or write records, with their function or class.
COMMANDS = {
    "grep": "grep_log",
    "dump-log": "dump_log",
    "verify": "verify_log",
    "consume": "Consumer",
    "export": "export_log",
    "table": "table_log",
    "convert": "convert_log",
    "recompress": "recompress_log",
    "compact": "compact_log",
    "restore": "restore_log",
    "mirror": "mirror_topics",
}


def test_a_consumer_has_the_documented_defaults():
    defaults, settings = READER_DEFAULTS["Consumer"], ConsumerSettings.from_options({"bootstrap.servers": "a:1"})
    assert settings.isolation_level == defaults.isolation
    assert (settings.check_crcs, defaults.on_damage) == (True, "fail")
    assert not defaults.control_records  # a consumer has no setting for control records


def test_every_command_with_a_reader_is_compared():
    tables = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "tables.py"))
    for command, names in tables["FUNCTIONS_OF_COMMANDS"].items():
        first = names[0].removeprefix("kafkaframes.").partition(".")[0]
        assert (first in READER_DEFAULTS) == (command in COMMANDS), command
        assert COMMANDS.get(command, first) == first


@pytest.mark.parametrize("name", COMMANDS)
def test_the_flags_of_commands_have_the_documented_defaults(name):
    defaults = READER_DEFAULTS[COMMANDS[name]]
    command = cli.get_command(click.Context(cli), name)
    flags = {option.name: option for option in command.params}
    for setting in {"isolation", "control_records", "on_damage"} & set(flags):
        assert flags[setting].default == getattr(defaults, setting), setting
    assert {"topics", "partitions"} <= set(flags) or name == "mirror"
    assert {"start", "end"} <= set(flags) or name in ("compact", "mirror")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signatures_have_the_documented_defaults(name):
    parameters = inspect.signature(getattr(kafkaframes, name)).parameters
    defaults = READER_DEFAULTS[name]
    keywords = ("topics", "partitions", "start", "end", "isolation", "control_records", "on_damage")
    assert {one for one in keywords if one not in parameters} == READERS_WITHOUT_SETTINGS.get(name, set())
    for setting in set(keywords) & set(parameters):
        if setting in ("isolation", "control_records", "on_damage"):
            assert parameters[setting].default == getattr(defaults, setting), setting
        assert setting == "topics" or parameters[setting].kind is inspect.Parameter.KEYWORD_ONLY


def test_every_public_function_that_selects_topics_has_defaults():
    functions = {name: getattr(kafkaframes, name) for name in kafkaframes.__all__ if name not in WITHOUT_DEFAULTS}
    selecting = {
        name
        for name, function in functions.items()
        if inspect.isfunction(function) and "topics" in inspect.signature(function).parameters
    }
    assert selecting - set(READER_DEFAULTS) == set()


@pytest.mark.parametrize(
    ("start", "end", "expected_offsets"),
    [
        (None, None, [0, 1, 2, 3, 4, 5]),
        ("earliest", "latest", [0, 1, 2, 3, 4, 5]),
        (2, 4, [2, 3]),
        (moment(START_MS + 10), None, [1, 2, 3, 4, 5]),  # offset 2 is older, and the range is contiguous
        (moment(START_MS + 12), moment(START_MS + 25), [3, 4]),
        (None, moment(START_MS + 10), [0]),
        (moment(START_MS + 31), None, []),  # after every record
        (None, moment(START_MS + 31), [0, 1, 2, 3, 4, 5]),
        (6, None, []),
    ],
)
def test_a_range_is_the_same_in_directories_segments_and_bytes(tmp_path, start, end, expected_offsets):
    log = write_log(tmp_path / "log")
    segment = log / "orders-0" / f"{0:020}.log"
    assert offsets(kafkaframes.scan_log(log, start=start, end=end)) == expected_offsets
    assert offsets(kafkaframes.scan_log(segment, start=start, end=end)) == expected_offsets
    for source in (log, segment, segment.read_bytes()):
        assert offsets(kafkaframes.read_records(source, start=start, end=end)) == expected_offsets


def test_a_bound_for_each_partition_names_every_selected_partition():
    scan = kafkaframes.scan_log(EXAMPLE_LOG_DIR, topics="orders", partitions=[0, 1], start={"orders": {0: 5, 1: 7}})
    first = {}
    for batch in scan.select("partition", "offset"):
        for row in batch.to_pylist():
            first.setdefault(row["partition"], row["offset"])
    assert first == {0: 5, 1: 7}
    with pytest.raises(OptionError, match="orders-1"):
        kafkaframes.scan_log(EXAMPLE_LOG_DIR, topics="orders", partitions=[0, 1], start={"orders": {0: 5}}).count()


def test_partitions_are_selected_in_every_topic_and_an_unknown_one_is_an_error():
    scan = kafkaframes.scan_log(EXAMPLE_LOG_DIR, topics="orders", partitions=1)
    every = kafkaframes.scan_log(EXAMPLE_LOG_DIR, topics="orders")
    assert scan.to_arrow() == every.where(partition=1).to_arrow()
    assert 0 < scan.count() < every.count()
    assert (
        kafkaframes.read_records(EXAMPLE_LOG_DIR, topics="orders", partitions=[1]).read_all().num_rows == scan.count()
    )
    for read in (lambda: kafkaframes.scan_log(EXAMPLE_LOG_DIR, partitions=[0, 77]).count(),):
        with pytest.raises(OptionError, match="no selected topic has the partition 77"):
            read()


def test_directories_are_read_committed_and_single_segments_uncommitted():
    default = kafkaframes.scan_log(TRANSACTIONS)
    committed_scan = kafkaframes.scan_log(TRANSACTIONS, isolation="read_committed")
    every = kafkaframes.scan_log(TRANSACTIONS, isolation="read_uncommitted")
    assert 0 < default.count() == committed_scan.count() < every.count()
    assert default.to_batches().read_all() == committed_scan.to_batches().read_all()
    batches = default.to_batches()
    batches.read_all()
    assert any("read_committed omits" in str(note) for note in batches.notes)
    assert kafkaframes.read_records(TRANSACTIONS, control_records=False).read_all().num_rows == every.count()
    segments = sorted(str(path) for path in TRANSACTIONS.rglob("ledger-0/*.log"))
    pattern = f"{TRANSACTIONS}/ledger-0/*.log"
    ledger = kafkaframes.scan_log(TRANSACTIONS, topics="ledger", partitions=0, isolation="read_uncommitted").count()
    start = kafkaframes.scan_log(TRANSACTIONS, topics="ledger", partitions=0).select("offset").limit(1)
    first = start.to_arrow()["offset"][0].as_py()
    assert kafkaframes.scan_log(segments).where(offset=(first, None)).count() >= ledger
    assert kafkaframes.scan_log(pattern).where(offset=(first, None)).count() >= ledger
    for source in (segments, pattern):
        with pytest.raises(OptionError, match="read_committed needs whole logs"):
            kafkaframes.scan_log(source, isolation="read_committed").count()


def test_bytes_have_no_topics_no_partitions_and_no_transactions(tmp_path):
    data = kafkaframes.build_records({"value": [b"v"]})
    for keywords, message in (
        ({"topics": "orders"}, "`topics` only applies to directories"),
        ({"partitions": 0}, "`partitions` only applies to directories"),
        ({"isolation": "read_committed"}, "read_committed needs whole logs"),
        ({"start": {"orders": {0: 1}}}, "`start` is one offset or one time for bytes"),
        ({"start": "latest"}, "cannot start at latest"),
    ):
        with pytest.raises(OptionError, match=message):
            kafkaframes.read_records(data, **keywords)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"on_damage": "PERMISSIVE"}, "`on_damage` is 'PERMISSIVE'; expected keep or drop or fail"),
        ({"isolation": "committed"}, "`isolation` is 'committed'; expected read_committed or read_uncommitted"),
        ({"partitions": [-1]}, "`partitions` contains -1; expected partition numbers"),
        ({"partitions": ["0"]}, "`partitions` contains '0'; expected partition numbers"),
        ({"partitions": True}, "`partitions` contains True; expected partition numbers"),
        (
            {"start": {"orders": {0: 5, 1: "2026-01-31"}}},
            "`start` has offsets and times; expected offsets for all partitions, or times for all",
        ),
        ({"start": -2}, "expected an offset of at least 0"),
        ({"end": "group:g"}, "`end` cannot be a group"),
    ],
)
def test_unknown_values_are_rejected_before_anything_is_read(keywords, message):
    with pytest.raises(OptionError, match=message):
        Selection(**keywords)
    with pytest.raises(OptionError, match=message):
        kafkaframes.scan_log("/nowhere", **keywords)
    with pytest.raises(OptionError, match=message):
        kafkaframes.read_records("/nowhere", **keywords)


def test_a_log_has_no_groups():
    with pytest.raises(OptionError, match="only live topics have groups"):
        kafkaframes.scan_log("/nowhere", start="group:g")
