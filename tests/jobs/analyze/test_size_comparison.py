"""Size comparisons of recorded traffic equal those of earlier analyses. Single messages, and calls that are skipped
with a reason, are tested, too.

``FIGURES`` has the exact sizes that the earlier analyses computed. The earlier analyses took ApiVersions responses at
version 0 for responses of the requested version, so this API is left out. The earlier analyses also left out the
records of request logs (1,001 bytes of responses in the last file, 1,664 in total), whose sizes are known.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.jobs.analyze.examples_by_layout import compare_values
from tests.protocol.messages.values import make_value

from kafkaframes.jobs.analyze.outcome import NOT_RAISED, NOT_READ, SizeTotals, merge_outcomes
from kafkaframes.jobs.analyze.proposals import CHANGED, RAISED, SAME, ProposalSettings
from kafkaframes.jobs.analyze.size_comparison import ComparisonTask, run_comparison_task
from kafkaframes.jobs.analyze.traffic import TrafficTask
from kafkaframes.protocol.messages import class_of, message
from kafkaframes.protocol.messages.headers import encode_request, encode_response
from kafkaframes.protocol.spec import FieldSpec, FieldType, Versions, catalog, load_message
from kafkaframes.protocol.spec.kip_636 import rewrite_errors

DATA = Path(__file__).parents[2] / "data"
FIGURES = {  # (messages, before, after) by file, proposal and kind
    "captures/mangled-loss.pcapng.zst": {
        "kip-636": {"inflexible": (43, 9326, 9326), "raised": (40, 9148, 9005), "flexible": (176, 31191, 30330)},
    },
    "captures/raw-oldversions-broker39.pcap": {
        "kip-636": {"inflexible": (100, 15341, 15341), "raised": (93, 17015, 16507)},
        "flexible": {"all": (201, 18698, 16718)},
    },
    "captures/share-groups-broker43.pcap.zst": {
        "kip-636": {"flexible": (67, 24326, 24105)},
        "tag-header": {"interleaved": (134, 39723, 39723), "typed": (134, 39723, 39723)},
    },
    "request-logs/broker-2.6.3-trace-old-clients.log.gz": {
        "kip-636": {"flexible": (34, 2290, 2188), "inflexible": (29, 1109, 1109), "raised": (22, 1051, 967)},
    },
    "request-logs/broker-4.3.1-trace.log.gz": {
        "kip-636": {"flexible": (75, 7667, 7411), "inflexible": (9, 402, 402), "raised": (7, 335, 325)},
        "flexible": {"all": (168, 15407, 13265)},
    },
}
API_VERSIONS = 18
ECHO = """{"apiKey": 12, "type": "request", "name": "HeartbeatRequest", "validVersions": "0-5",
  "flexibleVersions": "4+", "listeners": ["broker"], "fields": [
  {"name": "GroupId", "type": "string", "versions": "0+"},
  {"name": "GenerationId", "type": "int32", "versions": "0-4"},
  {"name": "Epoch", "type": "int64", "versions": "5+"},
  {"name": "MemberId", "type": "string", "versions": "0+"},
  {"name": "GroupInstanceId", "type": "string", "versions": "3+", "nullableVersions": "3+", "default": "null",
    "taggedVersions": "5+", "tag": 0}]}"""


@pytest.mark.parametrize(
    ("file", "name"), [(file, name) for file, proposals in FIGURES.items() for name in proposals], ids=str
)
def test_figures_equal_those_of_the_earlier_analyses(file, name):
    outcome = merge_outcomes(
        run_comparison_task(ComparisonTask(TrafficTask((str(DATA / file),), share, 2), ProposalSettings(name)))
        for share in range(2)
    )
    sums = {}
    for group, size_totals in outcome.totals_by_group.items():
        if group.api_key != API_VERSIONS and group.kind not in (NOT_READ, NOT_RAISED):
            sums.setdefault(group.kind, SizeTotals()).add(size_totals)
    kinds = FIGURES[file][name]
    measured_totals = {kind: (one.messages, one.before, one.after) for kind, one in sums.items() if one.messages}
    assert {kind: measured_totals[kind] for kind in kinds} == kinds
    total = outcome.sum_totals_by()[()]
    assert total.mismatched == 0
    assert (total.checked > 50) == file.startswith("captures/")


def test_apiversions_answered_at_version_0_is_measured_at_version_0():
    """KIP-511: a broker answers an unsupported version at version 0; this capture has 24 of these."""
    file = str(DATA / "captures" / "mangled-loss.pcapng.zst")
    sums = run_comparison_task(ComparisonTask(TrafficTask((file,)), ProposalSettings("kip-636"))).sum_totals_by(
        "api_version", api_key=18
    )
    assert {version: size_totals.messages for (version,), size_totals in sums.items()} == {0: 24, 4: 45}


def test_offset_commit_and_heartbeat_have_the_figures_of_the_documents():
    """Each error code of 0 saves 2 bytes: 200 for 100 partitions, 2 for a heartbeat. Other codes cost 2 bytes more."""
    heartbeat = message("HeartbeatResponse")
    size_totals = compare_values("kip-636", 4, heartbeat(), heartbeat(error_code=27))["flexible"]
    assert (
        size_totals.saved_bytes,
        size_totals.counts["int16"],
        size_totals.counts["int16 set"],
        size_totals.break_even_share,
    ) == (0, 2, 1, 0.5)
    parts = [{"partitionIndex": number, "errorCode": 0} for number in range(100)]
    body = {"throttleTimeMs": 0, "topics": [{"name": "t", "partitions": parts}]}
    assert (
        compare_values("kip-636", 9, message("OffsetCommitResponse").from_json(body, 9))["flexible"].saved_bytes == 200
    )


@pytest.mark.parametrize(("partitions", "before", "after"), [(100, 3319, 3019), (1000, 33020, 30020)])
def test_produce_has_the_size_that_kafkas_writers_produce(partitions, before, after):
    cls = message("ProduceResponse")
    parts = [cls.PartitionProduceResponse(index=number) for number in range(partitions)]
    value = cls(responses=[cls.TopicProduceResponse(name="t" * 10, partition_responses=parts)])
    size_totals = compare_values("kip-636", 11, value)["flexible"]
    assert (size_totals.before, size_totals.after, size_totals.checked, size_totals.mismatched) == (before, after, 1, 0)


@pytest.mark.parametrize(("length", "more"), [(0, 2), (126, 2), (127, 3), (300, 3)])
def test_an_error_message_costs_two_bytes_more_and_three_above_126_bytes(length, more):
    cls = message("ProduceResponse")
    for text, saved_bytes in ((None, 3), ("x" * length, 2 - more)):  # the error code is 0 and has a message
        part = cls.PartitionProduceResponse(error_message=text)
        value = cls(responses=[cls.TopicProduceResponse(partition_responses=[part])])
        assert compare_values("kip-636", 11, value)["flexible"].saved_bytes == saved_bytes


def test_a_raised_response_has_the_fields_of_its_target_version():
    """FindCoordinatorResponse 0 has an error code. The newest version has one per key, so without keys it has none."""
    kinds = compare_values("kip-636", 1, message("HeartbeatResponse")())
    assert (kinds["inflexible"].saved_bytes, kinds["raised"].saved_bytes, kinds["raised"].counts["int16"]) == (0, 2, 1)
    assert kinds["inflexible"].break_even_share is None
    kinds = compare_values("kip-636", 0, message("FindCoordinatorResponse")())
    assert kinds["raised"].counts["int16"] == 0
    assert kinds["raised"].saved_bytes == 0


def test_responses_that_cannot_be_raised_are_listed_and_the_rest_is_measured():
    cls = message("FindCoordinatorResponse")
    kinds = compare_values("kip-636", 0, cls(), cls(node_id=1), cls(), cls(node_id=2))
    assert kinds["raised"].messages == 2
    (reason,) = kinds[NOT_RAISED].reasons
    assert kinds[NOT_RAISED].omitted_count == 2
    assert reason == "field nodeId: the value is not the default, but version 6 lacks this field; its last version is 3"


def test_a_heartbeat_has_the_computed_size_in_both_layouts():
    """Compact lengths save one byte for each of three strings (one is null). The tag section costs one byte."""
    value = message("HeartbeatRequest")(group_id="g", generation_id=1, member_id="m", group_instance_id=None)
    for version in (3, 4):
        size_totals = compare_values("flexible", version, value, value)["all"]
        assert (size_totals.messages, size_totals.before, size_totals.after) == (2, 24, 20)


def test_authorized_operations_that_were_not_requested():
    """The unused field has four bytes per topic, and four for the cluster until version 10 (KIP-482's example)."""
    cls = message("MetadataResponse")
    topics = [cls.MetadataResponseTopic(name="t"), cls.MetadataResponseTopic(name="u", topic_authorized_operations=7)]
    blank = [
        compare_values("flexible", version, cls(topics=topics))["all"].counts["blank bytes"] for version in (10, 12)
    ]
    assert blank == [8, 4]


def test_tags_that_no_spec_declares_cannot_be_laid_out_without_tags():
    size_totals = compare_values("flexible", 4, message("HeartbeatRequest")(unknown_tags=[(99, b"trace")]))["all"]
    assert (size_totals.messages, size_totals.omitted_count) == (0, 1)


def test_a_pair_of_specs_moves_drops_and_adds_fields():
    """In version 5, a number has 8 bytes instead of 4, and a string that is null moves to a tag, which saves 1 byte."""
    request = message("HeartbeatRequest")(group_id="g", generation_id=7, member_id="m")
    after = {"HeartbeatRequest": load_message(ECHO)}
    kinds = compare_values(ProposalSettings("mine", after), 4, request)
    assert kinds.keys() == {CHANGED}
    assert kinds[CHANGED].before - kinds[CHANGED].after == -3
    assert (kinds[CHANGED].checked, kinds[CHANGED].mismatched, kinds[CHANGED].break_even_share) == (1, 0, None)
    kinds = compare_values(ProposalSettings("mine", after), 1, request)
    assert kinds[RAISED].saved_bytes == -3
    kinds = compare_values(ProposalSettings("mine", after), 9, message("OffsetCommitResponse")())
    assert kinds.keys() == {SAME}


def test_a_tag_of_existing_versions_is_measured_at_each_of_them():
    """A new tagged field with a value adds its 8 bytes and a header of 2. An inflexible version does not change."""
    spec = catalog.load_spec("HeartbeatRequest")
    owner = FieldSpec(
        name="Owner", type=FieldType("int64"), versions=Versions(4, 32767), default=0, tag=0,
        tagged_versions=Versions(4, 32767),
    )  # fmt: skip
    after = {spec.name: replace(spec, struct=replace(spec.struct, fields=(*spec.struct.fields, owner)))}
    request = message(spec.name)(group_id="g")
    assert compare_values(ProposalSettings("mine", after), 3, request).keys() == {SAME}
    for values, more in (((), 0), (("HeartbeatRequest.Owner=5",), 10), (("HeartbeatRequest.Owner=0",), 0)):
        assert compare_values(ProposalSettings("mine", after, values=values), 4, request)[CHANGED].saved_bytes == -more


def test_a_message_removed_by_the_new_specs_is_listed():
    spec = catalog.load_spec("HeartbeatRequest")
    removed_spec = replace(spec, struct=replace(spec.struct, versions=Versions.NONE))
    kinds = compare_values(ProposalSettings("mine", {spec.name: removed_spec}), 4, message(spec.name)())
    assert kinds[NOT_RAISED].reasons == {"the new specs do not have this message": 1}


def test_the_specs_before_the_change_may_be_the_users():
    request = message("HeartbeatRequest")(group_id="g")
    own = {"HeartbeatRequest": load_message(ECHO)}
    assert compare_values(ProposalSettings("back", {}, own), 4, request).keys() == {SAME}


def test_the_kip_636_page_has_the_output_of_the_command():
    """The table of docs/kip-636-traffic.md has the sizes of ``FIGURES`` for responses in the proposed version."""
    page = (DATA.parents[1] / "docs" / "kip-636-traffic.md").read_text()
    compared_files = set()
    for file, proposals in FIGURES.items():
        rows = [line for line in page.splitlines() if line.startswith("|") and file in line]
        raised_row = proposals["kip-636"].get(RAISED)
        for row in rows if raised_row is not None else ():
            cells = [cell.strip() for cell in row.strip("|").split("|")]
            assert [int(cell.replace(",", "")) for cell in cells[5:8]] == list(raised_row), file
            compared_files.add(file)
    assert len(compared_files) > 2


@pytest.mark.parametrize("name", ["MetadataResponse", "FetchRequest", "ShareFetchResponse", "OffsetDeleteResponse"])
def test_a_spec_pair_has_the_sizes_of_encoded_objects(name):
    """KIP-636's specs like any other pair: the same values by their JSON, header and body."""
    names = [name for api in catalog.list_apis() for name in (api.request, api.response)]
    after = rewrite_errors({name: catalog.load_spec(name) for name in names}).specs
    old, new = message(name), class_of(after[name])
    version = old.spec.valid_versions.highest
    values = [make_value(old, version, seed) for seed in range(4)]
    size_totals = compare_values(ProposalSettings("pair", after), version, *values)[CHANGED]
    encode = encode_request if old.spec.type == "request" else encode_response
    laid_out = [new.from_json(value.to_json(version, records="base64"), version + 1) for value in values]
    assert size_totals.after == sum(len(encode(one, version + 1)) for one in laid_out)
    assert size_totals.before == sum(len(encode(value, version)) for value in values)


def test_the_table_of_kip_636_has_the_output_of_the_command():
    root = DATA.parents[1]
    lines = (root / "docs" / "kip-636-traffic.md").read_text().splitlines()
    rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| `tests/data/")]
    assert len(rows) == 6
    for path, *cells in rows:
        outcome = run_comparison_task(ComparisonTask(TrafficTask((str(root / path),)), ProposalSettings("kip-636")))
        for kind, (count, before, after, share) in (("flexible", cells[:4]), ("raised", cells[4:])):
            size_totals = outcome.sum_totals_by(kind=kind).get((), SizeTotals())
            printed_numbers = [int(cell.replace(",", "") or 0) for cell in (count, before, after)]
            assert [size_totals.messages, size_totals.before, size_totals.after] == printed_numbers, (path, kind)
            assert share == (
                f"{100 * size_totals.saved_bytes / size_totals.before:.2f} %" if size_totals.before else ""
            )
