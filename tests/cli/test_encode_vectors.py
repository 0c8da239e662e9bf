"""The command ``kafkaframes vectors``."""

from tests.cli.calling import ask

from kafkaframes.errors import OptionError
from kafkaframes.testing import vectors


def test_written_vectors_are_listed_and_an_existing_directory_is_rejected(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(
            vectors, "write_vectors", lambda directory, specs: {"messages.jsonl.gz": 12_345, "varints.jsonl": 7}
        )
        output = ask("vectors", tmp_path / "out").output
    assert output.splitlines() == [
        "  12,345  messages.jsonl.gz",
        "       7  varints.jsonl",
        f"the vectors were written to {tmp_path / 'out'}; its README.md describes them",
    ]
    (tmp_path / "mine").write_text("")
    assert isinstance(ask("vectors", tmp_path).exception, OptionError)
