"""The lines of a large chunk are produced in pieces: the same lines, in text and JSON, even with damage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records import mutations

import kafkaframes
from kafkaframes.jobs.dump import chunks, jsonl, text
from kafkaframes.jobs.dump.jsonl import dump_json_lines
from kafkaframes.jobs.dump.styles import TextOptions
from kafkaframes.jobs.dump.text import dump_text

ROWS = [{"key": b"key %d" % number, "value": b"value", "timestamp": 9} for number in range(25)]
KINDS = [(0, "gzip"), (1, "snappy"), (1, "none"), (2, "lz4"), (2, "none")]
whole_cut = chunks.split_to_fit_memory


def outputs(path):
    text = b"".join(dump_text(str(path), TextOptions(print_data_log=True)))
    return text, b"".join(dump_json_lines([str(path)]))


def assert_same(folder, data):
    path = folder / "t-0" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(data)
    whole = outputs(path)
    with pytest.MonkeyPatch.context() as patch:
        for module in (jsonl, text):
            patch.setattr(module, "split_to_fit_memory", lambda chunk: whole_cut(chunk, 3))
        assert outputs(path) == whole


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_pieces_of_a_sound_chunk_have_the_lines_of_the_whole(tmp_path, kind):
    assert_same(tmp_path, kafkaframes.build_records(ROWS, record_format=kind[0], codec=kind[1], batch_records=10))


@given(st.integers(0, 1 << 40))
def test_pieces_of_a_damaged_chunk_have_the_lines_of_the_whole(tmp_path_factory, seed):
    assert_same(tmp_path_factory.mktemp("log"), mutations.choose_log(seed))
