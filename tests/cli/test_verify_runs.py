"""The output of ``verify``."""

from tests.cli.calling import ask_or_raise as ask


def test_verify_prints_at_most_twenty_findings_of_a_kind(tmp_path):
    partition = tmp_path / "t-0"
    partition.mkdir()
    for number in range(30):
        (partition / f"{number:020d}.log.deleted").write_bytes(b"")
    (partition / f"{50:020d}.log").write_bytes(b"")
    assert "and 10 more (--all)" in ask("verify", str(tmp_path)).output
    assert "more (--all)" not in ask("verify", "--all", str(tmp_path)).output
