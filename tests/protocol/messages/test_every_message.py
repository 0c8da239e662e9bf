"""Properties that hold for every message at every version. A new spec needs no new test.

Random values are created from the plan and a seed (``values.py``).
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import random
import re
import time
import warnings
from dataclasses import replace

import pytest
from tests.protocol.messages.values import make_value
from tests.versions import at_every_version

from kafkaframes.errors import DecodeError, EncodeError, TruncatedError
from kafkaframes.protocol.messages import class_of, message
from kafkaframes.protocol.spec import catalog

SEEDS = range(25) if os.environ.get("KAFKAFRAMES_PROFILE") == "deep" else range(2)
of_each_version = at_every_version("name", lambda name: catalog.load_spec(name).valid_versions)


def _read_or_get_error(read):
    """Return (value, position) or the type of the error."""
    try:
        return read()
    except DecodeError as error:
        return type(error)


def _damage(data, rng):
    """Return ``data`` with one byte changed, removed or inserted, or truncated."""
    at = rng.randrange(len(data))
    byte = bytes([rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)))])
    return rng.choice(
        (data[:at] + byte + data[at + 1 :], data[:at] + data[at + 1 :], data[:at] + byte + data[at:], data[:at])
    )


@pytest.mark.parametrize("name", catalog.list_names())
@of_each_version
def test_encoded_values_are_decoded(name, version):
    """Both modes decode the value. The bytes are canonical, have the length ``size``, and equal the interpreter's."""
    cls = message(name)
    codec = cls.codec(version)
    for seed in SEEDS:
        value = make_value(cls, version, seed, unknown_tags=True)
        data = value.encode(version)
        assert codec.encode_interpreted(value) == data
        assert value.size(version) == len(data)
        for mode in ("reference", "strict"):
            assert cls.decode(data, version, mode=mode) == value
            assert codec.decode_interpreted(data, 0, strict=mode == "strict") == (value, len(data))
        assert codec._read(data, 0, len(data)) == (value, len(data))  # with the generated function, not the interpreter
        assert cls.decode(data, version).encode(version) == data
        assert cls.decode_prefix(data + b"more", version) == (value, len(data))
        if data:
            with pytest.raises(DecodeError, match="bytes remain"):
                cls.decode(data + b"more", version)


@pytest.mark.parametrize("name", catalog.list_names())
@of_each_version
def test_generated_and_reference_reader_agree_on_damaged_bytes(name, version):
    cls = message(name)
    codec = cls.codec(version)
    rng = random.Random(f"{name}{version}")
    for seed in SEEDS:
        data = make_value(cls, version, seed, unknown_tags=True).encode(version)
        for _ in range(6 if data else 0):
            bad = _damage(data, rng)
            for mode in ("reference", "strict"):
                strict = mode == "strict"
                outcome = _read_or_get_error(lambda bad=bad, mode=mode: cls.decode_prefix(bad, version, mode=mode))
                twin = _read_or_get_error(
                    lambda bad=bad, strict=strict: codec.decode_interpreted(bad, 0, strict=strict)
                )
                assert repr(outcome) == repr(twin)  # repr: a damaged float64 may be a NaN
                if strict and isinstance(outcome, tuple) and "nan" not in repr(outcome):
                    assert outcome[0].encode(version) == bad[: outcome[1]]  # strict only accepts canonical bytes


@pytest.mark.parametrize("name", catalog.list_names())
@of_each_version
def test_a_truncated_message_is_an_error_with_a_position(name, version):
    cls = message(name)
    data = make_value(cls, version, 3).encode(version)
    for cut_at in sorted({*range(min(len(data), 4)), *range(0, len(data), max(1, len(data) // 8))}):
        with pytest.raises(TruncatedError) as caught:
            cls.decode(data[:cut_at], version)
        assert caught.value.position is not None
        assert caught.value.position <= cut_at


@pytest.mark.parametrize("name", catalog.list_names())
@of_each_version
def test_the_json_form_survives_a_round_trip(name, version):
    cls = message(name)
    value = make_value(cls, version, 4, unknown_tags=True)
    form = value.to_json(version, records="base64")
    assert cls.from_json(form, version) == value
    assert cls.from_json(json.loads(json.dumps(form)), version).encode(version) == value.encode(version)
    kafkas = value.to_json(version, records="base64", unknown_tags=False)
    assert "_unknownTags" not in json.dumps(kafkas)
    assert cls.from_json(kafkas, version).to_json(version, records="base64") == kafkas


def _without_tags(spec):
    """Return the spec as it was before any of its tagged fields were added."""

    def strip(struct):
        return replace(struct, fields=tuple(field for field in struct.fields if field.tag is None))

    return replace(spec, struct=strip(spec.struct), structs={name: strip(one) for name, one in spec.structs.items()})


def _with_tags(spec):
    return [
        version
        for version in spec.valid_versions
        for struct in (spec.struct, *spec.structs.values())
        if any(field.is_tagged(version) and field.versions == field.tagged_versions for field in struct.fields)
    ]


TAGGED = {
    name: versions for name in catalog.list_names() if (versions := sorted(set(_with_tags(catalog.load_spec(name)))))
}


@pytest.mark.parametrize("name", TAGGED)
@at_every_version("name", TAGGED.get)
def test_tagged_fields_can_be_added_to_an_existing_version(name, version):
    """KIP-482: a reader preserves an unknown tag, and uses the default of a missing one."""
    new, old = message(name), class_of(_without_tags(catalog.load_spec(name)))
    for seed in SEEDS:
        data = make_value(new, version, seed).encode(version)
        seen_by_old = old.decode(data, version, mode="strict")
        assert seen_by_old.encode(version) == data
        written_by_old = make_value(old, version, seed).encode(version)
        seen_by_new = new.decode(written_by_old, version, mode="strict")
        assert seen_by_new.encode(version) == written_by_old


@pytest.mark.parametrize("name", catalog.list_names())
def test_an_error_for_a_missing_field_names_its_first_version(name):
    cls = message(name)
    for version in cls.spec.valid_versions:
        for absent in cls.codec(version).plan.root.absent:
            changed_values = {
                "int8": 5,
                "int16": 5,
                "int32": 5,
                "int64": 5,
                "string": "other",
                "bool": not absent.default,
            }
            if absent.array or absent.type not in changed_values:
                continue
            value = cls(**{absent.attribute: changed_values[absent.type]})
            probe = make_value(cls, version, 0).replace(**{absent.attribute: getattr(value, absent.attribute)})
            if absent.ignorable:
                assert getattr(cls.decode(probe.encode(version), version), absent.attribute) == absent.default
                continue
            with pytest.raises(EncodeError, match=r"(first|last) version is \d|no valid version") as caught:
                probe.encode(version)
            assert caught.value.path == (absent.name,)


def _recode_with_kafka_python(name, version, data):
    module = _KAFKA_PYTHON.get(name)
    if module is None:
        return None
    cls = getattr(module, name)
    try:
        value = cls.decode(data, version=version)
    except ValueError as error:
        if "Invalid version" not in str(error):
            raise
        return None
    value._header = None  # otherwise, a decoded value cannot be encoded
    return bytes(value.encode(version=version))


def _load_kafka_python_modules():
    import pkgutil

    import kafka.protocol

    modules = {}
    for info in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" in info.name or ".schemas" in info.name:
            continue
        module = importlib.import_module(info.name)
        names = [name for name in vars(module) if name.endswith(("Request", "Response"))]
        modules |= {name: module for name in names if hasattr(getattr(module, name), "decode")}
    return modules


_KAFKA_PYTHON: dict = {}


def _recode_with_kio(api, type_, version, data):
    module = re.sub(r"(?<!^)(?=[A-Z])", "_", api.name).lower()
    try:
        cls = getattr(
            importlib.import_module(f"kio.schema.{module}.v{version}.{type_}"), f"{api.name}{type_.capitalize()}"
        )
    except ImportError:
        return None
    from kio.serial import entity_reader, entity_writer

    value, _ = entity_reader(cls)(data, 0)
    out = io.BytesIO()
    entity_writer(cls)(out, value)
    return out.getvalue()


PEER_APIS = ["Produce", "Fetch", "ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch", "ApiVersions", "JoinGroup"]


def test_other_libraries_decode_our_bytes_and_encode_them_equally():
    """The libraries are kio and kafka-python, with a sample of APIs at every version that they support."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _KAFKA_PYTHON.update(_load_kafka_python_modules())
    compared_counts = {"kafka-python": 0, "kio": 0}
    for api in map(catalog.find_api, PEER_APIS):
        for type_, name in (("request", api.request), ("response", api.response)):
            for version in api.current_versions:
                data = make_value(message(name), version, 1, plain=True).encode(version)
                theirs = {
                    "kafka-python": _recode_with_kafka_python(name, version, data),
                    "kio": _recode_with_kio(api, type_, version, data),
                }
                for peer, again in theirs.items():
                    if again is not None:
                        assert again == data, (peer, name, version)
                        compared_counts[peer] += 1
    assert min(compared_counts.values()) > 90, compared_counts


def test_decoding_many_tags_takes_linear_time():
    """kafka-python copies the rest of the message for each struct with tags, which takes quadratic time."""
    cls = message("FetchResponse")
    partition, topic = cls.PartitionData, cls.FetchableTopicResponse

    def seconds(count):
        partitions = [partition(records=b"x" * 2000, unknown_tags=[(100, b"y" * 10)]) for _ in range(count)]
        data = cls(responses=[topic(partitions=partitions)]).encode(16)
        best = float("inf")
        for _ in range(5):
            start = time.thread_time()
            cls.decode(data, 16)
            best = min(best, time.thread_time() - start)
        return best

    gc.disable()  # its own cost grows with the number of live objects
    try:
        assert seconds(4000) < 120 * seconds(200) + 0.05  # 20 times the data; quadratic would be 400
    finally:
        gc.enable()
