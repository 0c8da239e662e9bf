"""KIP-636 measured: in place it is what the rewritten specs give, and real responses have the wire's size before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.protocol.messages.values import make_value

from kafkaframes.jobs.analyze.kip_636 import FLEXIBLE, RAISED, Cost, Costs, measure, own_plan, tagged_plan
from kafkaframes.jobs.analyze.wire_cost import Task, measure_kip_636
from kafkaframes.protocol.messages import class_of, message
from kafkaframes.protocol.messages.columns import encode_columns
from kafkaframes.protocol.messages.plan import plan_message
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.error_tags import Tagger
from kafkaframes.protocol.spec.kip_636 import rewrite

DATA = Path(__file__).parents[2] / "data"


def test_in_place_is_what_the_rewrite_gives_to_a_new_version():
    """For every API whose newest version is flexible: the same bytes for a response of defaults, and for errors."""
    specs = {name: catalog.load(name) for api in catalog.apis() for name in (api.request, api.response)}
    found = rewrite(specs)
    checked = 0
    for api in found.apis:
        if api.is_flexible_new or api.version == api.before:
            continue
        new = plan_message(found.specs[api.response], api.version)
        own, tagged = own_plan(api.key, api.before), tagged_plan(api.key, api.before)
        cls = message(api.response)
        errors = {"error_code": 3, "error_message": "no"}
        fields = {one.attribute: errors[one.attribute] for one in own.root.fields if one.attribute in errors}
        for value in (cls(), cls(**fields)):
            array = cls.decode_columns([value.encode(api.before)], api.before)
            assert encode_columns(tagged, array).to_pylist() == encode_columns(new, array).to_pylist(), api
            checked += 1
    assert checked > 120


def columns(name, version, *values):
    cls = message(name)
    return cls.decode_columns([value.encode(version) for value in values], version)


@pytest.mark.parametrize("api", [pytest.param(api, id=api.name) for api in catalog.apis() if api.key not in (17, 18)])
def test_in_place_at_every_version_is_what_a_spec_with_tags_at_that_version_gives(api):
    """Made the long way: another spec, another class, the value by its JSON."""
    cls = message(api.response)
    for version in api.versions:
        if not cls.spec.is_flexible(version):
            continue
        other = class_of(Tagger(cls.spec, before=version, version=version, suffix=False).run())
        values = [make_value(cls, version, seed) for seed in range(3)]
        forms = [value.to_json(version, records="base64") for value in values]
        cost = measure(columns(api.response, version, *values), None, api.key, version)[0, FLEXIBLE]
        assert cost.before == sum(value.size(version) for value in values)
        assert cost.after == sum(other.from_json(form, version).size(version) for form in forms)


@pytest.mark.parametrize(("partitions", "before", "after"), [(100, 3319, 3019), (1000, 33020, 30020)])
def test_produce_costs_what_kafkas_own_writers_take(partitions, before, after):
    cls = message("ProduceResponse")
    parts = [cls.PartitionProduceResponse(index=number) for number in range(partitions)]
    value = cls(responses=[cls.TopicProduceResponse(name="t" * 10, partition_responses=parts)])
    cost = measure(columns("ProduceResponse", 11, value), None, 0, 11)[0, FLEXIBLE]
    assert (cost.before, cost.after) == (before, after)


@pytest.mark.parametrize(("length", "more"), [(0, 2), (126, 2), (127, 3), (300, 3)])
def test_a_message_that_is_set_costs_two_bytes_more_and_three_above_126(length, more):
    cls = message("ProduceResponse")
    for text, saved in ((None, 3), ("x" * length, 2 - more)):  # a code that is 0, and a message
        part = cls.PartitionProduceResponse(error_message=text)
        value = cls(responses=[cls.TopicProduceResponse(partition_responses=[part])])
        assert measure(columns("ProduceResponse", 11, value), None, 0, 11)[0, FLEXIBLE].saved == saved


def test_the_documents_numbers_for_offset_commit_and_heartbeat():
    """2 bytes for each code that is 0: 100 partitions 200, a heartbeat 2; a set code costs 2 more."""
    heartbeat = message("HeartbeatResponse")
    cost = measure(columns("HeartbeatResponse", 4, heartbeat(), heartbeat(error_code=27)), None, 12, 4)[0, FLEXIBLE]
    assert (cost.saved, cost.codes, cost.codes_set, cost.break_even) == (0, 2, 1, 0.5)
    parts = [{"partitionIndex": number, "errorCode": 0} for number in range(100)]
    value = message("OffsetCommitResponse").from_json(
        {"throttleTimeMs": 0, "topics": [{"name": "t", "partitions": parts}]}, 9
    )
    assert measure(columns("OffsetCommitResponse", 9, value), None, 8, 9)[0, FLEXIBLE].saved == 200


def test_an_inflexible_version_is_counted_apart_and_raised():
    heartbeat = message("HeartbeatResponse")
    found = measure(columns("HeartbeatResponse", 1, heartbeat()), np.array([6]), 12, 1)
    assert found[0, "inflexible"].saved == 0
    assert found[0, "inflexible"].mismatched == 0
    assert found[0, RAISED].saved == 2


@pytest.mark.parametrize(
    "name", ["share-groups-broker43.pcap.zst", "mangled-loss.pcapng.zst", "sasl-raw-tokens-broker39.pcap.gz"]
)
def test_real_responses_have_the_size_of_the_wire(name):
    costs = Costs()
    for share in range(2):
        costs.merge(measure_kip_636(Task((str(DATA / "captures" / name),), share, 2)))
    (total,) = costs.by().values()
    assert total.responses > 50
    assert total.mismatched == 0
    assert sum(cost.unmeasured for group, cost in costs.groups.items() if group.kind != RAISED) == 0


def test_costs_add_up():
    one = Cost(responses=1, before=10, after=8, codes=1)
    one.add(Cost(responses=2, before=20, after=25, codes=2, codes_set=2))
    assert (one.responses, one.saved, one.error_rate) == (3, -3, 2 / 3)
