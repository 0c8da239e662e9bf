"""The command ``kafkaframes checkpoint``: the progress of a query, and copies for another source."""

import json
import shutil

import pytest
from click.testing import CliRunner
from tests.jobs.test_checkpoint import CONNECTOR, checkpoint, first_in_flight  # noqa: F401  fixtures

from kafkaframes.cli.main import cli
from kafkaframes.errors import KafkaframesError, OptionError
from kafkaframes.jobs.checkpoint import read_checkpoint


def call(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["checkpoint", *arguments])
    if result.exception is not None:
        raise result.exception
    return result.output


def test_the_progress_of_a_query_is_shown(checkpoint):  # noqa: F811
    state = read_checkpoint(checkpoint)
    assert (state.planned_batch, state.committed_batch, state.is_in_flight) == (0, 0, False)
    assert state.operators == ("stateStoreSave",)
    assert state.sources[0].planned_offsets == state.sources[0].committed_offsets == {"in": {"0": 21, "1": 29}}
    assert state.sources[0].begins == {"in": {"0": 0, "1": 0}}
    assert state.starting_offsets == {}
    result = call("show", str(checkpoint))
    assert "micro-batch 0 done" in result
    assert 'source 0: up to {"in": {"0": 21, "1": 29}}' in result
    assert "startingOffsets" not in result


def test_the_error_for_a_first_micro_batch_names_the_required_option(first_in_flight):  # noqa: F811
    assert read_checkpoint(first_in_flight).is_first_batch_in_flight
    assert 'set startingOffsets={"in": {"0": 0, "1": 0}}' in call("show", str(first_in_flight))
    assert json.loads(call("show", str(first_in_flight), "--json"))["done"] == -1


def test_a_copy_for_the_connector_has_its_note(first_in_flight, tmp_path):  # noqa: F811
    shutil.rmtree(first_in_flight / "sources")  # like a checkpoint of kafka-topic
    with pytest.raises(OptionError, match="specify the start offsets of source 0"):
        call("convert", str(first_in_flight), str(tmp_path / "no"), "--for", "kafka")
    call(
        "convert", str(first_in_flight), str(tmp_path / "to"), "--for", "kafka", "--begins", '{"in": {"0": 3, "1": 0}}'
    )
    assert (tmp_path / "to" / "sources" / "0" / "0").read_bytes() == b'\0v1\n{"in":{"0":3,"1":0}}'
    assert (tmp_path / "to" / "offsets" / "0").read_bytes() == (CONNECTOR / "offsets" / "0").read_bytes()
    assert not (tmp_path / "no").exists()


def test_topics_are_renamed_in_a_copy_and_the_original_is_unchanged(checkpoint, tmp_path):  # noqa: F811
    before = {path: path.read_bytes() for path in checkpoint.rglob("*") if path.is_file()}
    call("convert", str(checkpoint), str(tmp_path / "to"), "--for", "kafka", "--topic", "in=out")
    new_state = read_checkpoint(tmp_path / "to")
    assert new_state.sources[0].planned_offsets == {"out": {"0": 21, "1": 29}}
    assert new_state.sources[0].begins == {"out": {"0": 0, "1": 0}}
    assert {path: path.read_bytes() for path in checkpoint.rglob("*") if path.is_file()} == before
    delta = next((tmp_path / "to" / "state").rglob("1.delta"))
    assert delta.read_bytes() == (CONNECTOR / delta.relative_to(tmp_path / "to")).read_bytes()


@pytest.mark.parametrize("place", ["metadata", "offsets/0"])
def test_deeply_nested_json_has_an_error_without_a_traceback(checkpoint, place):  # noqa: F811
    (checkpoint / place).write_bytes(b"v1\n{}\n" * (place != "metadata") + b"[" * 9000)
    result = CliRunner().invoke(cli, ["checkpoint", "show", str(checkpoint)])
    assert result.exception is None or isinstance(result.exception, KafkaframesError)
