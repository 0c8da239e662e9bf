"""Names, manifests, chunk indexes, chunks, keys: the plugin's output is read, anything else is rejected by name."""

import base64
import json
import pickle
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from tests.storage.tiered.store import KeyPair, pack_sizes

from kafkaframes.errors import DamagedChunkError, DecodeError, LogDirError, MissingExtraError, OptionError
from kafkaframes.storage.tiered import chunks, encryption_keys, names
from kafkaframes.storage.tiered.manifest import MAX_INDEX_BYTES, parse_chunk_index, parse_manifest, unpack_sizes
from kafkaframes.storage.tiered.strict_json import JsonFields, parse_object

CASES = Path(__file__).parents[2] / "data" / "tiered"
MANIFESTS = sorted(CASES.glob("*/store/*/*/*.rsm-manifest"))
SIZES = st.lists(st.integers(1, 2**31 - 1), max_size=40)


# ----------------------------------------------------------------------------------------------------------- names


@given(st.integers(0, 2**63 - 1), st.uuids(), st.sampled_from(names.OBJECT_SUFFIXES))
def test_object_names_survive_a_round_trip(offset, segment_id, suffix):
    text = base64.urlsafe_b64encode(segment_id.bytes).decode().rstrip("=")
    name = names.ObjectName.parse(f"{offset:020d}-{text}.{suffix}")
    assert name == names.ObjectName(offset, text, suffix)
    assert f"{name.stem}.{suffix}" == f"{offset:020d}-{text}.{suffix}"


@given(st.text(), st.integers(0, 2**31 - 1))
def test_invalid_texts_are_not_parsed(text, number):
    for parse in (names.ObjectName.parse, names.TopicFolder.parse, names.ViewPath.parse, names.parse_folder):
        parse(text)
        parse(f"{text}/{number}")
    assert names.parse_partition(str(number)) == number


def test_names_are_split_from_the_right_by_width():
    folder = names.TopicFolder.parse("dc2-a-b_c.d--3-_-AAAAAAAAAAAAAAAAAAA")
    assert folder is None  # the last character of an id must have two bits
    assert names.TopicFolder.parse("dc2-a-b_c.d--_-AAAAAAAAAAAAAAAAAAAA").topic_id == "_-AAAAAAAAAAAAAAAAAAAA"
    assert names.TopicFolder.parse("orders-12") is None
    assert names.ObjectName.parse("00000000000000000012-0000000001.checkpoint") is None
    assert names.parse_partition("4294967296") is None


def test_view_paths_survive_a_round_trip_and_contain_their_objects():
    main = "s3://b/p!/orders-Q3VD4Tg3QAOmasRur4PghA/0/00000000000000000480-mVWvRq_YR7C8qGZ6g-ieVg"
    for name, index in (("00000000000000000480.log", None), ("00000000000000000500.snapshot", "producerSnapshot")):
        path = names.ViewPath(main, "orders-0", name)
        assert names.ViewPath.parse(str(path)) == path
        assert (path.index, path.object_path("log")) == (index, f"{main}.log")
    directory = names.ViewPath.parse("/s/orders-Q3VD4Tg3QAOmasRur4PghA/0!/orders-0")
    assert directory.is_directory
    assert not directory.is_metadata


# -------------------------------------------------------------------------------------------------------- chunk index


@given(SIZES, st.integers(1, 4))
def test_packed_sizes_survive_a_round_trip_at_every_width(sizes, width):
    fits = len(sizes) < 2 or max(size - min(sizes[:-1]) for size in sizes[:-1]) < 1 << (8 * width)
    assert unpack_sizes(pack_sizes(sizes, width if fits else None)).tolist() == sizes


@given(SIZES, st.data())
def test_a_truncated_or_extended_list_is_rejected(sizes, data):
    raw = pack_sizes(sizes)
    with pytest.raises(DecodeError):
        unpack_sizes(raw[: data.draw(st.integers(0, len(raw) - 1))])
    with pytest.raises(DecodeError):
        unpack_sizes(raw + b"\0")


@given(st.binary(max_size=60))
def test_any_bytes_are_sizes_or_rejected(raw):
    with suppress(DecodeError):
        assert all(size > 0 for size in unpack_sizes(raw).tolist())


def test_a_huge_count_allocates_nothing():
    with pytest.raises(DecodeError, match="the list states 2147483647 sizes, but has only 9 bytes"):
        unpack_sizes((2**31 - 1).to_bytes(4, "big") + bytes(4) + b"\1")


def build_variable_index(sizes, *, chunk=10, size=None, is_packed=None):
    frame = zstandard.ZstdCompressor().compress(pack_sizes(sizes)) if is_packed is None else is_packed
    size = chunk * len(sizes) if size is None else size
    text = base64.b64encode(frame).decode()
    return JsonFields(
        {"type": "variable", "originalChunkSize": chunk, "originalFileSize": size, "transformedChunks": text}
    )


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=20), st.data())
def test_ranges_of_a_variable_index_are_adjacent(sizes, data):
    index = parse_chunk_index(build_variable_index(sizes))
    assert index.sizes() == sizes
    assert index.stored_size == sum(sizes)
    start = data.draw(st.integers(0, index.original_file_size - 1))
    end = data.draw(st.integers(start + 1, index.original_file_size))
    assert index.count_stored_bytes(start, end) == sum(sizes[start // 10 : (end - 1) // 10 + 1])
    assert index.count_stored_bytes(end, start) == 0


def test_chunk_indexes_of_fixed_sizes_support_any_number_of_chunks():
    index = parse_chunk_index(
        JsonFields(
            {
                "type": "fixed",
                "originalChunkSize": 1,
                "originalFileSize": 2**31 - 1,
                "transformedChunkSize": 29,
                "finalTransformedChunkSize": 29,
            }
        )
    )
    assert index.count == 2**31 - 1
    assert index.stored_size == 29 * (2**31 - 1)
    assert index.get_plain_range(index.count - 1) == (2**31 - 2, 2**31 - 1)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (build_variable_index([5, 6], size=9), "2 chunks, but 9 bytes in chunks of 10 bytes need 1"),
        (build_variable_index([], is_packed=b"junk"), "not a zstd frame"),
        (build_variable_index([5], is_packed=zstandard.ZstdCompressor().compress(pack_sizes([5])) + b"x"), "zstd"),
        (
            build_variable_index([5], is_packed=zstandard.ZstdCompressor(write_content_size=False).compress(b"a" * 9)),
            "bytes",
        ),
        (
            build_variable_index([5], is_packed=zstandard.ZstdCompressor().compress(bytes(MAX_INDEX_BYTES + 1))),
            "the maximum is",
        ),
        (JsonFields({"type": "list"}), "expected fixed or variable"),
    ],
)
def test_invalid_chunk_indexes_are_rejected(fields, message):
    with pytest.raises(DecodeError, match=message):
        parse_chunk_index(fields)


# ----------------------------------------------------------------------------------------------------------- manifests


def test_every_manifest_of_the_plugin_is_read():
    assert len(MANIFESTS) > 30
    for path in MANIFESTS:
        manifest = parse_manifest(path.read_bytes(), file=str(path))
        main = str(path).removesuffix(".rsm-manifest")
        assert manifest.chunks.stored_size == Path(f"{main}.log").stat().st_size
        assert manifest.indexes_size == Path(f"{main}.indexes").stat().st_size
        assert f"{manifest.metadata.start_offset:020d}-{manifest.metadata.segment_id}" == Path(main).name


def list_json_paths(value, path=()):
    yield path
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from list_json_paths(inner, (*path, name))


def replace_at(value, path, change):
    if not path:
        return change
    out = dict(value)
    if change is KeyError and len(path) == 1:
        del out[path[0]]
    else:
        out[path[0]] = replace_at(out[path[0]], path[1:], change)
    return out


ENCRYPTED_MANIFEST = json.loads(next(path for path in MANIFESTS if "zstd-encrypted" in str(path)).read_text())
WRONG = [KeyError, [], -1, 2**64, 1.5, "?", True, {"x": {}}]
# Fields with their valid values among WRONG. KeyError means that the field can be missing.
OPTIONAL_OR_VALID_VALUES = {
    ("encryption", KeyError),
    ("segmentIndexes.transaction", KeyError),
    ("compression", True),
    ("remoteLogSegmentMetadata.remoteLogSegmentId.topicIdPartition.topicPartition.topic", "?"),
    ("remoteLogSegmentMetadata.brokerId", -1),
    ("remoteLogSegmentMetadata.maxTimestampMs", -1),
    ("remoteLogSegmentMetadata.eventTimestampMs", -1),
    ("remoteLogSegmentMetadata.segmentLeaderEpochs.0", KeyError),
}


def test_every_field_of_a_manifest_is_required_and_checked():
    accepted_changes, named_files = set(), set()
    for path in (path for path in list_json_paths(ENCRYPTED_MANIFEST) if path):
        for wrong in WRONG:
            try:
                parse_manifest(json.dumps(replace_at(ENCRYPTED_MANIFEST, path, wrong)).encode(), file="the-object")
                accepted_changes.add((".".join(path), str(wrong)))
            except LogDirError as error:
                named_files.add(error.file)
    assert named_files == {"the-object"}
    assert accepted_changes == {(path, str(wrong)) for path, wrong in OPTIONAL_OR_VALID_VALUES}


@given(st.binary(max_size=200), st.integers(0, len(MANIFESTS) - 1), st.data())
def test_any_bytes_are_a_manifest_or_rejected(raw, which, data):
    real = bytearray(MANIFESTS[which].read_bytes())
    place = data.draw(st.integers(0, len(real) - 1))
    real[place : place + data.draw(st.integers(0, 40))] = raw[: data.draw(st.integers(0, 40))]
    for one in (raw, bytes(real)):
        with suppress(LogDirError):
            parse_manifest(one)


@pytest.mark.parametrize(
    "raw", [b'{"a":1,"a":2}', b"[" * 100_000, b'{"a":NaN}', b"\xff", b"[]", b'{"a":' + b"9" * 5000 + b"}", b""]
)
def test_ambiguous_json_is_rejected(raw):
    with pytest.raises(DecodeError):
        parse_object(raw)


# --------------------------------------------------------------------------------------------------------- chunks, keys


@pytest.fixture(scope="module")
def pair():
    return KeyPair.make("one")


def test_a_wrapped_key_is_only_unwrapped_with_its_key_pair(pair):
    numbers = encryption_keys.load_private_key(pair.pem, file="pem")
    assert encryption_keys.unwrap_key(pair.wrap(b"x" * 32), numbers) == b"x" * 32
    assert encryption_keys.unwrap_key(KeyPair.make("two").wrap(b"x" * 32), numbers) is None
    for wrapped_key in (b"", b"\xff" * 256, bytes(256), bytes(255)):
        assert encryption_keys.unwrap_key(wrapped_key, numbers) is None


def test_invalid_key_files_are_reported(pair):
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    other = ec.generate_private_key(ec.SECP256R1())
    curve = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = b"-----BEGIN PUBLIC KEY-----\n"
    for pem, message in ((b"junk", "no private key"), (public, "public key"), (curve, "not RSA")):
        with pytest.raises(OptionError, match=f"keyFile k.pem .*{message}"):
            encryption_keys.load_private_key(pem, file="k.pem")


@given(st.binary(min_size=1, max_size=300), st.integers(0, 400))
def test_frames_are_decompressed_or_rejected(raw, size):
    frame = zstandard.ZstdCompressor().compress(raw)
    assert chunks.decompress(frame, len(raw)) == raw
    for bad, claimed_size in ((frame, len(raw) + 1), (frame[:-1], len(raw)), (frame + b"x", len(raw)), (raw, size)):
        with pytest.raises(chunks.UnreadableError):
            chunks.decompress(bad, claimed_size)


def test_a_large_chunk_is_decompressed_in_pieces(monkeypatch):
    monkeypatch.setattr(chunks, "MAX_WHOLE_CHUNK_BYTES", 1000)
    raw = bytes(range(256)) * 100
    assert chunks.decompress(zstandard.ZstdCompressor().compress(raw), len(raw)) == raw
    lying = zstandard.ZstdCompressor().compress(raw)[:-20]
    with pytest.raises(chunks.UnreadableError):
        chunks.decompress(lying, len(raw))


def test_the_error_of_a_chunk_can_be_pickled():
    error = DamagedChunkError("no", position=3, file="o", lost=(1, 2))
    assert pickle.loads(pickle.dumps(error)).lost == (1, 2)


def test_an_error_without_the_library_names_the_extra(monkeypatch, pair):
    for name in [name for name in sys.modules if name.startswith("cryptography")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'kafkaframes\[tiered\]'"):
        encryption_keys.load_private_key(pair.pem, file="k.pem")
    with pytest.raises(MissingExtraError, match=r"\[tiered\]"):
        chunks.make_decryptor(b"k" * 32, b"")
