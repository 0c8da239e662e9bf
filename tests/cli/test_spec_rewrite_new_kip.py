"""``kafkaframes spec new-kip``: from a few lines of Python to specs that other commands take."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.calling import ask, ask_spec

from kafkaframes.errors import OptionError, SpecError

CAPTURE = Path(__file__).parents[1] / "data" / "captures" / "share-groups-broker43.pcap.zst"


def rewrite_from_file(tmp_path, *lines):
    file = tmp_path / "mine.py"
    file.write_text("def rewrite(kip):\n" + "".join(f"    {line}\n" for line in lines))
    return file


def test_a_draft_file_becomes_specs_that_can_be_measured(tmp_path):
    """A new string of ten bytes takes eleven bytes in each topic of a MetadataResponse 13. Five responses have three
    topics.
    """
    file = rewrite_from_file(tmp_path, 'kip.add("MetadataResponse.Topics.Owner", "string")')
    text = ask_spec("new-kip", file, "--to", tmp_path / "new")
    assert text.splitlines()[:2] == ["MetadataRequest 13 -> 14", "MetadataResponse 13 -> 14"]
    assert "compatible (spec check): 2 messages changed; 192 specs" in text
    assert ask("spec", "lint", tmp_path / "new").exit_code == 0
    value = "MetadataResponse.Topics.Owner=10..10"
    comparison = ask_spec("propose", tmp_path / "new", CAPTURE, "--value", value)
    assert "added Topics.Owner: string" in comparison
    (row,) = [line for line in comparison.splitlines() if line.startswith("Metadata 13 response")]
    _, _, _, count, before, after, saved_bytes, *_ = row.split()
    assert (int(count), int(saved_bytes)) == (5, int(before) - int(after))
    assert int(saved_bytes) == -11 * 3


@pytest.mark.parametrize(
    ("line", "error", "reason"),
    [
        ('kip.fields("ProduceResponse.NodeEndpoints")[0].tag()', SpecError, "it already has tag 0"),
        ('kip.add("FetchRequest.Mine", "int16", default="text")', Exception, ""),
    ],
)
def test_invalid_drafts_are_rejected_without_output(tmp_path, line, error, reason):
    result = ask("spec", "new-kip", rewrite_from_file(tmp_path, line), "--to", tmp_path / "new")
    assert isinstance(result.exception, error)
    assert reason in str(result.exception)
    assert not (tmp_path / "new").exists()


def test_a_file_without_the_function_is_rejected(tmp_path):
    (tmp_path / "mine.py").write_text("")
    for file in ("mine.py", "none.py"):
        result = ask("spec", "new-kip", tmp_path / file, "--to", tmp_path / "new")
        assert isinstance(result.exception, OptionError)
