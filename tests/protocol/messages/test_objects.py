"""Message classes: fields, defaults, equality, copies, lookup, modes, and errors with positions."""

import copy
import doctest
import json
import linecache
import pickle
import subprocess
import sys
import traceback
from uuid import UUID, SafeUUID

import pytest

import kafkaframes
from kafkaframes.errors import DecodeError, EncodeError, OptionError, SpecError, TruncatedError
from kafkaframes.protocol.messages import Message, Struct, message
from kafkaframes.protocol.messages._runtime import encode_varint, read_varint
from kafkaframes.protocol.messages.codec import HotShapes
from kafkaframes.protocol.spec import load_message

Metadata = message("MetadataResponse")
Fetch = message("FetchResponse")
Topic = Metadata.MetadataResponseTopic
Partition = Metadata.MetadataResponsePartition
OWN_SPEC = {
    "name": "Mine",
    "type": "data",
    "validVersions": "0",
    "flexibleVersions": "0+",
    "fields": [{"name": "A", "type": "int8", "versions": "0+"}],
}


def test_examples_of_the_public_functions():
    for function in (kafkaframes.message_class, kafkaframes.list_apis):
        runner = doctest.DocTestRunner()
        for test in doctest.DocTestFinder().find(function, function.__name__, globs=vars(kafkaframes)):
            assert runner.run(test).failed == 0


def test_a_message_has_one_class_and_fresh_defaults():
    assert kafkaframes.message_class("MetadataResponse") is Metadata
    assert issubclass(Metadata, Message)
    assert issubclass(Topic, Struct)
    one, other = Metadata(), Metadata()
    one.topics.append(Topic())
    assert other.topics == []
    assert (one.controller_id, one.cluster_id, Partition().leader_epoch) == (-1, None, -1)


def test_values_have_equality_and_repr():
    value = Metadata(cluster_id="c", topics=[Topic(name="a", partitions=[Partition(replica_nodes=[1, 2])])])
    same = Metadata(cluster_id="c", topics=[Topic(name="a", partitions=[Partition(replica_nodes=[1, 2])])])
    assert value == same
    same.topics[0].unknown_tags.append((5, b""))
    assert value != same
    assert value != "value"
    assert Topic() != Partition()
    expected_repr = "[MetadataResponseTopic(name='a', partitions=[MetadataResponsePartition(replica_nodes=[1, 2])])]"
    assert repr(value) == f"MetadataResponse(cluster_id='c', topics={expected_repr})"
    assert repr(same).endswith("unknown_tags=[(5, b'')])])")
    assert "<100 bytes 0000000000000000...>" in repr(message("FetchResponse").PartitionData(records=bytes(100)))
    with pytest.raises(TypeError, match="unhashable"):
        hash(value)


def test_an_unknown_field_is_rejected():
    with pytest.raises(TypeError, match="unexpected keyword argument 'clusterid'"):
        Metadata(clusterid="x")
    with pytest.raises(AttributeError):
        Metadata().clusterid = "x"


def test_replace_returns_a_changed_copy():
    value = Metadata(cluster_id="c", unknown_tags=[(1, b"x")])
    changed_copy = value.replace(controller_id=7)
    assert (changed_copy.cluster_id, changed_copy.controller_id, value.controller_id) == ("c", 7, -1)
    assert changed_copy.unknown_tags == [(1, b"x")]
    assert value.replace(unknown_tags=[]).unknown_tags == []
    deep = copy.deepcopy(Metadata(topics=[Topic(name="a")]))
    assert deep == Metadata(topics=[Topic(name="a")])


def test_values_and_specs_can_be_pickled():
    value = Metadata(cluster_id="c", topics=[Topic(name="a", unknown_tags=[(3, b"x")])], unknown_tags=[(1, b"x")])
    assert pickle.loads(pickle.dumps(value)) == value
    assert pickle.loads(pickle.dumps(value.topics[0])) == value.topics[0]
    spec = load_message(json.dumps({**OWN_SPEC, "name": "Pickled"}))
    own = message("Pickled", specs=spec)(a=4, unknown_tags=[(1, b"")])
    back = pickle.loads(pickle.dumps([own, own]))
    assert (back[0].encode(0), type(back[0]).__name__) == (own.encode(0), "Pickled")
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_elements_are_found_by_map_key_and_keys_can_repeat():
    value = Metadata(topics=[Topic(name="a", error_code=1), Topic(name="b"), Topic(name="a", error_code=2)])
    assert value.find("topics", name="a").error_code == 1
    assert [one.error_code for one in value.find_all("topics", name="a")] == [1, 2]
    assert value.find("topics", name="z") is None
    with pytest.raises(OptionError, match="found by name"):
        value.find("topics", error_code=1)
    with pytest.raises(OptionError, match="not an array"):
        value.find("cluster_id", name="a")
    with pytest.raises(OptionError, match="no key"):
        Topic(partitions=[Partition()]).find("partitions", partition_index=0)


@pytest.mark.parametrize(
    ("change", "version", "place"),
    [
        ({"topics": None}, 12, "null in a field that is not nullable (at $.Topics)"),
        ({"topics": [None]}, 12, "an array element is null (at $.Topics[0])"),
        ({"topics": ["a"]}, 12, "expected a MetadataResponseTopic, not str (at $.Topics[0])"),
        ({"topics": [Topic(name=5)]}, 12, "5 is not a str (at $.Topics[0].Name)"),
        (
            {"topics": [Topic(name="x" * 32768)]},
            12,
            "string value has 32768 bytes; the maximum is 32767 (at $.Topics[0].Name)",
        ),
        ({"topics": [Topic(name=None)]}, 11, "null in a field that is not nullable (at $.Topics[0].Name)"),
        ({"topics": [Topic(topic_id="x")]}, 12, "'x' is not a uuid.UUID (at $.Topics[0].TopicId)"),
        ({"controller_id": 2**31}, 12, "2147483648 is not a valid int32"),
        ({"controller_id": "1"}, 12, "at $.ControllerId"),
        ({"topics": "abc"}, 12, "expected a list, not str (at $.Topics)"),
        (
            {"topics": [Topic(partitions=[Partition(replica_nodes=[1, "2"])])]},
            12,
            "$.Topics[0].Partitions[0].ReplicaNodes[1]",
        ),
        ({}, 99, "MetadataResponse has no version 99; expected 0-13"),
    ],
)
def test_an_encode_error_names_the_field(change, version, place):
    value = Metadata(**{"topics": [Topic(name="t")], **change})
    if "topics" in change and isinstance(change["topics"], list):
        value.topics = [
            topic.replace(name="t") if isinstance(topic, Topic) and topic.name == "" else topic
            for topic in value.topics
        ]
    with pytest.raises(EncodeError) as caught:
        value.encode(version)
    assert place in str(caught.value)


def test_a_decode_error_names_the_field_and_the_byte():
    data = Metadata(topics=[Topic(name="t", partitions=[Partition(replica_nodes=[1, 2])])]).encode(12)
    with pytest.raises(
        TruncatedError,
        match=r"int32 needs 4 bytes; only 1 remain \(at \$\.Topics\[0\].Partitions\[0\]\.ReplicaNodes\[1\]",
    ):
        Metadata.decode(data[:-12], 12)
    with pytest.raises(DecodeError, match="expected 0-13"):
        Metadata.decode(data, 14)
    with pytest.raises(OptionError, match="reference or strict"):
        Metadata.decode(data, 12, mode="lenient")


def test_each_value_has_its_own_default_structs():
    cls = message("FetchResponse")
    value = cls(responses=[cls.FetchableTopicResponse(partitions=[cls.PartitionData()])])
    data = value.encode(16)
    partition = cls.decode(data, 16).responses[0].partitions[0]
    partition.current_leader.leader_id = 3
    assert partition.current_leader.leader_id == 3
    assert partition != cls.PartitionData()
    assert cls.decode(data, 16) == value
    assert cls.decode(data, 16).encode(16) == data


def test_any_kind_of_bytes_is_read():
    data = Metadata(cluster_id="c").encode(12)
    assert Metadata.decode(bytearray(data), 12) == Metadata.decode(memoryview(data), 12) == Metadata.decode(data, 12)


@pytest.mark.parametrize(
    ("raw", "strict_reason"),
    [
        ("000002001200000004000000000000", None),
        ("000082000012000000040000000000 00", "varint is not canonical"),
        ("000002001200000004000000000001 e1a9c39771 00", "not canonical"),
        ("0000020012000000040000000000010301 02", "invalid bool 2"),
        ("00000200120000000400000000000201080000000000000007 0108 0000000000000008", "must be in ascending order"),
        ("000002001200000004000000000001010a0000000000000007", "has size 10"),
        ("00000200120000000400000000000101 08 ffffffffffffffff", "has its default"),
        ("0000020012000000040000000000010008 0202ff0000000100", "not UTF-8"),
    ],
)
def test_strict_rejects_unusual_bytes_that_reference_accepts(raw, strict_reason):
    cls, data = message("ApiVersionsResponse"), bytes.fromhex(raw)
    value, _ = cls.decode_prefix(data, 4)
    if strict_reason is None:
        assert cls.decode(data, 4, mode="strict") == value
    else:
        with pytest.raises(DecodeError, match=strict_reason):
            cls.decode_prefix(data, 4, mode="strict")


@pytest.mark.parametrize("count", ["ffffffff07", "ffffff7f", "80808001"])
def test_nothing_is_allocated_for_a_count_that_exceeds_the_bytes(count):
    with pytest.raises(DecodeError, match="elements"):
        Metadata.decode(bytes.fromhex("00000000" + count + "00000000"), 12)


def test_arrays_of_numbers_and_texts_of_every_length():
    for count in (0, 1, 62, 63, 64, 126, 127, 128, 500):
        value = Metadata(topics=[Topic(name="t" * count, partitions=[Partition(replica_nodes=list(range(count)))] * 2)])
        for version in (8, 13):
            assert Metadata.decode(value.encode(version), version) == value


@pytest.mark.parametrize("version", [0, 7, 9, 13])
def test_empty_arrays_of_structs_are_separate_lists(version):
    names = {"topic_id": UUID(int=7)} if version >= 13 else {}
    topics = [Topic(name=name, **names) for name in ("a", "b")]
    data = Metadata(topics=topics).encode(version)
    decoded = Metadata.decode(data, version)
    assert decoded == Metadata(topics=topics)
    decoded.topics[0].partitions.append(Partition())
    assert decoded.topics[1].partitions == decoded.brokers == []


def test_a_null_array_of_structs_is_none_or_an_error():
    body = Fetch(responses=[Fetch.FetchableTopicResponse(partitions=[Fetch.PartitionData(records=b"")])])
    for version in (11, 17):
        for transactions in (None, []):
            body.responses[0].partitions[0].aborted_transactions = transactions
            decoded = Fetch.decode(body.encode(version), version)
            assert decoded.responses[0].partitions[0].aborted_transactions == transactions
    with pytest.raises(DecodeError, match="Brokers"):
        Metadata.decode(bytes(4) + b"\0" + bytes(20), 13)
    with pytest.raises(DecodeError, match="Brokers"):
        Metadata.decode(bytes(4) + b"\xff" * 4 + bytes(20), 8)


def test_uuids_are_those_of_the_standard_library():
    ids = [UUID(int=0), UUID(int=1), UUID(int=2**128 - 1), UUID(int=0x0123456789ABCDEF << 64)]
    topics = Metadata.decode(Metadata(topics=[Topic(topic_id=one) for one in ids]).encode(13), 13).topics
    decoded_ids = [topic.topic_id for topic in topics]
    assert decoded_ids == ids
    assert [str(one) for one in decoded_ids] == [str(one) for one in ids]
    assert {*decoded_ids} == {*ids}
    assert pickle.loads(pickle.dumps(decoded_ids)) == ids
    assert all(one.is_safe is SafeUUID.unknown for one in decoded_ids)


def test_elements_of_many_shapes_are_decoded():
    """Readers of frequent shapes are created, used and deleted, and always return the same as the interpreter."""
    lengths = [(3, 3, 0)] * 8 + [(3, 2, 1), (3, 3, 0), (1, 1, 0)] * 6 + [(3, 3, 0)] * 8
    parts = [
        Partition(partition_index=i, replica_nodes=[1] * a, isr_nodes=[2] * b, offline_replicas=[3] * c)
        for i, (a, b, c) in enumerate(lengths)
    ]
    parts[3].unknown_tags = [(7, b"seven")]
    value = Metadata(topics=[Topic(name="t", partitions=parts)])
    data = value.encode(13)
    codec = Metadata.codec(13)
    for _ in range(3):
        assert Metadata.decode(data, 13) == value == codec.decode_interpreted(data, 0, strict=True)[0]
    (hot,) = [one for one in codec._read.__globals__.values() if isinstance(one, HotShapes)]
    assert (4, 4, 1) in hot
    for a in range(60):  # the amount of generated code is limited for any number of shapes
        many = Metadata(topics=[Topic(name="t", partitions=[Partition(replica_nodes=[1] * a)] * 8)])
        assert Metadata.decode(many.encode(13), 13) == many
    assert len(hot) <= HotShapes.MAX_SHAPES
    for cut_at in range(len(data)):
        with pytest.raises(DecodeError):
            Metadata.decode(data[:cut_at], 13)


@pytest.mark.parametrize("value", [128, 300, 2**14, 2**21 - 1, 2**28, 2**31 - 1])
def test_varints_of_generated_code_survive_a_round_trip(value):
    data = encode_varint(value)
    assert read_varint(data, 0) == (value, len(data))


def test_tracebacks_show_the_generated_source():
    codec = Metadata.codec(12)
    try:
        codec._read(b"\0", 0, 1)
    except Exception as error:
        text = "".join(traceback.format_exception(error))
    assert "o.throttle_time_ms, n = unpack_iB(buf, p)" in text
    assert any(name.startswith("<kafkaframes MetadataResponse v12") for name in linecache.cache)
    assert "def write_MetadataResponse(o, put):" in codec.source_text()


def test_own_specs_are_loaded(tmp_path):
    text = json.dumps(OWN_SPEC)
    (tmp_path / "Mine.json").write_text(text)
    spec = load_message(text)
    for specs in (tmp_path, str(tmp_path / "Mine.json"), spec, [spec], {"Mine": spec}):
        assert kafkaframes.message_class("Mine", specs=specs)(a=1).encode(0) == b"\x01\x00"
    assert kafkaframes.message_class("Mine", specs=spec) is kafkaframes.message_class("Mine", specs=[spec])
    with pytest.raises(OptionError, match="Other"):
        kafkaframes.message_class("Other", specs=[spec])
    with pytest.raises(OptionError, match=r"nowhere\.json cannot be read"):
        kafkaframes.message_class("Mine", specs=tmp_path / "nowhere.json")
    with pytest.raises(SpecError, match="did you mean MetadataRequest"):
        kafkaframes.message_class("MetadataReqest")


def test_a_key_whose_version_is_its_type_is_decoded():
    key = message("OffsetCommitKey")(group="g", topic="t", partition=1)
    assert key.encode(1) == key.encode(0)
    assert message("OffsetCommitKey").decode(key.encode(0), 1) == key


def test_the_table_of_apis_is_complete():
    table = {api.name: api for api in kafkaframes.list_apis()}
    assert table["ApiVersions"].header_versions[4] == (2, 0)
    assert table["ControlledShutdown"].header_versions[0][0] == 0
    assert table["SaslHandshake"].flexible_since is None


def test_the_first_decode_needs_no_heavy_import():
    """The goal for the first decode is 60 ms on an idle machine (measured by `benchmarks/messages_objects.py`)."""
    code = (
        "import kafkaframes\n"
        "kafkaframes.message_class('MetadataResponse').decode(bytes.fromhex('000000000100ffffffff01000300'), 13)\n"
        "import sys; print({'numba', 'pyarrow', 'numpy', 'pyspark'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"
