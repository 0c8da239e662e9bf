"""Names on the pages in ``docs/kips`` exist, and the numbers on the pages are recomputed."""

import importlib
import json
import re
from functools import cache
from pathlib import Path

import click
import pytest
from tests.cli.calling import ask_or_raise

from kafkaframes.cli.main import cli
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.catalog.reading import MESSAGES_FOLDER
from kafkaframes.protocol.spec.changes import EVOLUTION_RULES
from kafkaframes.protocol.spec.evolution import compare_sets
from kafkaframes.protocol.spec.kip_636 import count_changes, rewrite_errors
from kafkaframes.protocol.spec.lint import FIELD_LINTS, MESSAGE_LINTS, STRUCT_LINTS
from kafkaframes.protocol.spec.rules import FIELD_RULES, MESSAGE_RULES, STRUCT_RULES
from kafkaframes.wire.varint import TAG_HEADERS

ROOT = Path(__file__).parents[1]
PAGES_TEXT = "".join(page.read_text() for page in sorted((ROOT / "docs/kips").glob("*.md")))
SENTENCES = " ".join(PAGES_TEXT.split())
NAMES = sorted(set(re.findall(r"`([^`]+)`", PAGES_TEXT)))
CAPTURE = "tests/data/captures/mangled-loss.pcapng.zst"
#: Quoted from the documents and from Kafka: names outside this package.
QUOTED = {
    "FooResponse",
    "UserAgent",
    "sizeOfLong(int)",
    "wrapper - last inner + inner",
    "ac 02",
    "n >> 31",
    "none",
}
#: Terms of the spec language and of the API, which are not names of files, commands or fields.
SPEC_TERMS = {"flexibleVersions", "taggedVersions", "versions", "zeroCopy", "records", "reference", "strict", "headers"}
HEADINGS = {"flexible since"}


def commands():
    """Return every command as typed, with its options."""
    commands_by_name = {}
    for name in cli.list_commands(click.Context(cli)):
        command = cli.get_command(click.Context(cli), name)
        inner = command.list_commands(click.Context(command)) if isinstance(command, click.Group) else []
        commands_by_name[name] = command
        commands_by_name |= {f"{name} {one}": command.get_command(click.Context(command), one) for one in inner}
    return commands_by_name


COMMANDS = commands()
RULE_NAMES = set(EVOLUTION_RULES) | {
    rule.name
    for table in (FIELD_RULES, MESSAGE_RULES, STRUCT_RULES, FIELD_LINTS, STRUCT_LINTS, MESSAGE_LINTS)
    for rule in table
}


def is_command(name):
    words = name.removeprefix("kafkaframes ").replace("\\|", "|").split()
    known_command = next(
        (COMMANDS[" ".join(words[:count])] for count in (2, 1) if " ".join(words[:count]) in COMMANDS), None
    )
    options = {option for command in COMMANDS.values() for param in command.params for option in param.opts}
    return known_command is not None and {word for word in words if word.startswith("--")} <= (
        {option for param in known_command.params for option in param.opts} if known_command is not None else options
    )


def is_file(name):
    return any((folder / name).exists() for folder in (ROOT, ROOT / "src/kafkaframes", ROOT / "docs"))


def is_module(name):
    try:
        importlib.import_module(f"kafkaframes.{name}")
    except ImportError:
        package, dot, attribute = name.rpartition(".")
        if not dot:
            return False
        return is_module(package) and hasattr(importlib.import_module(f"kafkaframes.{package}"), attribute)
    return True


@cache
def sources():
    return "\n".join(path.read_text() for path in (ROOT / "src/kafkaframes").rglob("*.py"))


def is_field(name):
    """Return whether a name is a message of the catalog, or a field of one."""
    spec, _, field = name.rpartition(".")
    if spec:
        return spec in catalog.list_names() and field in {field.name for field in catalog.load_spec(spec).struct.fields}
    return name in catalog.list_names() or any(
        f'"{name}"' in path.read_text() for path in MESSAGES_FOLDER.glob("*.json")
    )


def is_setting(name):
    """Return whether a name is a topic setting, or an argument, a class or a function of this package."""
    word = re.match(r"[\w.]+", name)
    return word is not None and re.search(rf"\b{re.escape(word[0])}\b", sources()) is not None


@pytest.mark.parametrize("name", [name for name in NAMES if name not in QUOTED | SPEC_TERMS | HEADINGS])
def test_names_on_the_pages_exist(name):
    if name.startswith(("kafkaframes ", "spec ", "analyze ", "restore ")):
        assert is_command(name)
    elif name.startswith("--"):
        assert any(name in param.opts for command in COMMANDS.values() for param in command.params)
    elif "/" in name or name.endswith(".md"):
        assert is_file(name)
    elif "-" in name and re.fullmatch(r"[a-z-]+", name):
        assert name in RULE_NAMES
    elif not re.fullmatch(r'["\d+: ,-]+|\(.*|"taggedVersions.*|[\d+-]+', name):
        assert name in COMMANDS or name in RULE_NAMES or is_module(name) or is_field(name) or is_setting(name)


def test_dotted_names_are_modules():
    """A dotted name must be a module or attribute; an occurrence in the sources is not sufficient."""
    for name in NAMES:
        if re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", name) and not name.startswith("message.format"):
            assert is_module(name), name


# ---- numbers --------------------------------------------------------------------------------------------------------


@cache
def count_kip_636():
    names = [name for api in catalog.list_apis() for name in (api.request, api.response)]
    specs = {name: catalog.load_spec(name) for name in names}
    return specs, rewrite_errors(specs)


@cache
def lines_of(*arguments):
    return [json.loads(line) for line in ask_or_raise(*arguments, "--json").stdout.splitlines()]


def body_bytes(name, version, fill, *, own=False):
    return len(fill(message(name, specs=count_kip_636()[1].specs if own else None)).encode(version))


def measure_produce_response(cls):
    rows = [cls.PartitionProduceResponse(index=index) for index in range(100)]
    return cls(responses=[cls.TopicProduceResponse(name="t" * 10, partition_responses=rows)])


def measure_offset_delete_response(cls):
    rows = [cls.OffsetDeleteResponsePartition(partition_index=index) for index in range(100)]
    return cls(topics=[cls.OffsetDeleteResponseTopic(name="t" * 10, partitions=rows)])


def tag_traffic(kind):
    rows = [row for row in lines_of("spec", "propose", "tag-header", ROOT / CAPTURE) if row.get("kind") == kind]
    total = {name: sum(row[name] for row in rows) for name in ("saved", "bytesBefore")}
    sections = {name: sum(row["counts"][name] for row in rows) for name in ("sections", "empty sections")}
    answers = sum(row["messages"] for row in rows if row["saved"] and row["api"] == "ApiVersions")
    return total["saved"], total["bytesBefore"], answers, sections["empty sections"], sections["sections"]


def tag_headers():
    rows = [row["header"] for row in lines_of("analyze", "tag-header") if row["kind"] == "field"]
    return sum(row["interleaved"] < row["adopted"] for row in rows), len(rows)


def all_tagged():
    rows = [row["bare"] for row in lines_of("analyze", "tag-header") if row["kind"] == "message"]
    sums = {name: sum(row[name] for row in rows) for name in ("adopted", "escape", "all tagged")}
    more, less = (round(100 * (sums[name] / sums["adopted"] - 1)) for name in ("all tagged", "escape"))
    return len(rows), more, -less


def count_nulls():
    specs, report = count_kip_636()
    exact = [field for field in report.fields if field.kind == "message"]
    (suffix,) = [count_changes(rewrite_errors(specs, suffix=True))["error messages that became tagged"]]
    rules = [finding.rule.name for finding in compare_sets(specs, report.specs)]
    changed_count = sum(one.is_null_default_new for one in exact)
    return changed_count, suffix, len(exact), rules.count("default-to-null"), changed_count


def measure_records():
    (sizes,) = lines_of("analyze", "records", ROOT / "tests/data/logs/zk-28-mixed")
    count = sizes["records"]
    fields = ("size", "key length", "value length")
    new, old = (sum(sizes["sizes"][name][form] for name in fields) / count for form in (2, 0))
    totals = [f"{sizes['totals'][form] / count:.1f}" for form in (2, 0, 1)]
    return count, round(sizes["sizes"]["value"][0] / count), f"{new:.2f}", round(old), *totals


LENGTH_INPUTS = (
    "captures/share-groups-broker43.pcap.zst",
    CAPTURE.removeprefix("tests/data/"),
    "captures/raw-oldversions-broker39.pcap",
    "captures/raw-resets-broker43.pcap",
    "captures/sasl-raw-tokens-broker39.pcap.gz",
    "request-logs/broker-4.3.1-trace.log.gz",
)


def count_lengths():
    """Return the counts of arrays and of one-byte lengths in the inputs of the page on KIP-636."""
    page = (ROOT / "docs/kip-636-traffic.md").read_text()
    assert all(f"| `tests/data/{path}` |" in page for path in LENGTH_INPUTS)
    rows = [
        kind
        for path in LENGTH_INPUTS
        for row in lines_of("spec", "propose", "flexible", ROOT / "tests/data" / path)
        for kind in row.get("lengths", [])
    ]
    sums = {
        kind: [sum(row[name] for row in rows if row["kind"] == kind) for name in ("hundred", "one_byte", "count")]
        for kind in ("arrays", "strings", "bytes", "records")
    }
    assert sums["arrays"][1] == sums["arrays"][2]
    return sums["arrays"][0], *(number for total in sums.values() for number in total[1:])


def bytes_lost_from(length):
    adopted_size, draft = (TAG_HEADERS[name].size(0, length) for name in ("adopted", "interleaved"))
    return draft - adopted_size


def find_powers():
    """Return the powers of two from which on the draft loses two bytes, and three bytes."""
    return tuple(next(bits for bits in range(32) if bytes_lost_from(1 << bits) == lost_bytes) for lost_bytes in (2, 3))


def releases():
    return (22,) * ("Twenty-two releases" in (ROOT / "docs/spec-releases.md").read_text())


COUNTS = {
    r"a Produce response of 100 partitions takes ([\d,]+) bytes instead of ([\d,]+)": lambda: (
        body_bytes("ProduceResponse", 11, measure_produce_response)
        + body_bytes("ProduceResponse", 14, measure_produce_response, own=True)
        - body_bytes("ProduceResponse", 13, measure_produce_response),
        body_bytes("ProduceResponse", 11, measure_produce_response),
    ),
    r"a Heartbeat response with an error takes (\d+) bytes instead of (\d+)": lambda: (
        body_bytes("HeartbeatResponse", 5, lambda cls: cls(error_code=27), own=True),
        body_bytes("HeartbeatResponse", 4, lambda cls: cls(error_code=27)),
    ),
    r"rewritten as version 1: (\d+) bytes instead of (\d+) for 100": lambda: (
        body_bytes("OffsetDeleteResponse", 1, measure_offset_delete_response, own=True),
        body_bytes("OffsetDeleteResponse", 0, measure_offset_delete_response),
    ),
    r"(\d+) of (\d+) fields, or of the (\d+) that are named exactly so. (\d+) of the (\d+) are harmless": count_nulls,
    r"all at once: (\d+) of (\d+) APIs": lambda: (len(count_kip_636()[1].apis), len(catalog.list_apis())),
    r"save a byte \((\d+) of ([\d,]+) bytes in `[^`]+`: the two lists of features in (\d+)": lambda: tag_traffic(
        "typed"
    )[:3],
    r"the draft saves (\d+) of ([\d,]+) bytes in `[^`]+`, one for the epoch of the features in each of (\d+) "
    r"ApiVersions responses; ([\d,]+) of its ([\d,]+) tag sections": lambda: tag_traffic("interleaved"),
    r"\((\d+) of the catalog's (\d+) tagged fields": tag_headers,
    r"the (\d+) messages whose newest version is flexible take (\d+) % more with every .*, (\d+) % less": all_tagged,
    r"\(one byte, two from 2\^(\d+), three from 2\^(\d+)\)": find_powers,
    r"the ([\d,]+) records of `tests/data/logs/zk-28-mixed` \((\d+) bytes of value each\) lengths take ([\d.]+) bytes "
    r"a record instead of (\d+), all together ([\d.]+) instead of ([\d.]+) \(format 0\) and ([\d.]+)": measure_records,
    r"the run over (\d+) releases": releases,
    r"([\d,]+) of [\d,]+ arrays have at most 100 elements; .* one byte in all of these, in ([\d,]+) of ([\d,]+) "
    r"strings, (\d+) of (\d+) byte fields and (\d+) of (\d+) record sets": lambda: (
        count_lengths()[0],
        *count_lengths()[3:],
    ),
}
#: Limits that other tests check (tests/wire, tests/protocol/spec), numbers in the KIPs, and releases.
LIMITS = {"100", "95", "3.0", "300", "128", "15", "2047", "1023", "2048", "127", "1024", "126", "4.4", "10", "32", "64"}


@pytest.mark.parametrize("sentence", COUNTS)
def test_counts_on_the_pages_are_recomputed(sentence):
    match = re.search(sentence, SENTENCES)
    assert match is not None, "the sentence on the page has changed: change it here as well"
    assert match.groups() == tuple(f"{one:,}" if isinstance(one, int) else one for one in COUNTS[sentence]())


def test_each_number_on_the_pages_is_recomputed_or_known():
    counted_numbers = {number for sentence in COUNTS for number in re.search(sentence, SENTENCES).groups()} | LIMITS
    for paragraph in PAGES_TEXT.split("\n\n"):
        _, separator, ours = paragraph.partition("kafkaframes: ")
        plain = re.sub(r"`[^`]*`|\[[^\]]*\]\([^)]*\)", "", " ".join(ours.split())) if separator else ""
        stated_numbers = re.findall(r"(?<![\w.`-])\d[\d,]*(?:\.\d+)?(?![\w-])", plain)
        assert {number.rstrip(",") for number in stated_numbers if len(number.rstrip(",")) > 1} <= counted_numbers, (
            paragraph
        )
