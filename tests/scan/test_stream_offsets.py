"""Stream offsets in the form of a checkpoint."""

import json

from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.jobs.micro_batch import parse_all_offsets, parse_offsets
from kafkaframes.scan.fingerprints import Fingerprint
from kafkaframes.scan.stream_offsets import AbsentPartition, StreamOffsets

topics = st.text("abc.-_", min_size=1, max_size=3)
ids = st.text("ab-_", min_size=1, max_size=4)
names = st.tuples(topics, st.integers(0, 12))
offsets = st.integers(0, 2**63 - 1)


sizes = st.none() | st.integers(0, 2**31 - 1)
fingerprints = st.builds(
    Fingerprint,
    offsets,
    st.none() | st.integers(-(2**63), 2**63 - 1),
    sizes,
    sizes,
    st.text("0123456789abcdef", min_size=1),
)


@given(
    st.dictionaries(names, offsets),
    st.dictionaries(topics, ids),
    st.dictionaries(names, st.tuples(ids, offsets)),
    st.dictionaries(names, st.lists(fingerprints, min_size=1, max_size=3).map(tuple)),
)
def test_every_offset_is_parsed_back(listed_offsets, topic_ids, absent, last_records):
    present = {topic for topic, _ in listed_offsets}
    by_topic = {topic: topic_id for (topic, _), (topic_id, _) in absent.items()}
    at = StreamOffsets(
        listed_offsets,
        {topic: topic_id for topic, topic_id in topic_ids.items() if topic in present},
        {name: AbsentPartition(by_topic[name[0]], offset) for name, (_, offset) in absent.items()},
        last_records,
    )
    offsets_json = json.loads(json.dumps(at.to_json()))
    assert StreamOffsets.from_json(offsets_json) == at
    assert (parse_offsets(json.dumps(offsets_json)) or {}) == StreamOffsets(listed_offsets).to_json()
    all_offsets = {**{name: entry.offset for name, entry in at.absent.items()}, **listed_offsets}
    assert (parse_all_offsets(json.dumps(offsets_json)) or {}) == StreamOffsets(all_offsets).to_json()


def test_brokers_without_topic_ids_and_unknown_entries():
    at = StreamOffsets({}, {}, {("t", 1): AbsentPartition("", 7)})
    assert at.to_json() == {"t@/1=7": {}}
    assert StreamOffsets.from_json({"t@/1=7": {}}) == at
    assert StreamOffsets.from_json({"t@a/x=1,2=,=3": {}, "u@b": {"0": 5}}).absent == {}
    assert StreamOffsets.from_json({"t@/0:1:x:3:4:ab,0:1,0:1:2:3:4": {}}).fingerprints == {}
    for line in ("-", "[]", "7", '{"log": "x@y"}', '{"a@b": 5}', '{"a@b": {"x": "y"}}'):
        assert parse_all_offsets(line) is None
