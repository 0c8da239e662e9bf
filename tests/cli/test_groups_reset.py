"""The target offsets of ``kafkaframes groups reset``, in each of its modes."""

import json

import pytest

from kafkaframes.errors import OptionError


def test_resets_equal_those_of_kafka_consumer_groups(run, tmp_path):
    run("topics create moved --partitions 2")
    for number in range(2):
        run(f"produce moved -p {number}", stdin=b"".join(b"%d\n" % number for number in range(10)))

    def at(*options: str) -> list[int]:
        run("groups reset mover", *options)
        rows = json.loads(run("groups describe mover --json").output)
        return [row["committed"] for row in rows]

    assert at("--topic", "moved", "--to-latest") == [10, 10]
    assert at("--topic", "moved:1", "--shift-by", "-3") == [10, 7]
    assert at("--all-topics", "--shift-by", "99") == [10, 10]
    assert at("--topic", "moved", "--to-offset", "4") == [4, 4]
    assert at("--topic", "moved:0", "--to-datetime", "2020-01-01") == [0, 4]
    assert at("--topic", "moved:0", "--to-datetime", "2999-01-01") == [10, 4]
    exported_csv = run("groups reset mover --all-topics --to-current --export").output
    assert exported_csv == '"mover","moved",0,10\n"mover","moved",1,4\n'
    assert at("--all-topics", "--to-earliest") == [0, 0]
    output = run("groups reset mover --all-topics --to-latest --dry-run").output
    assert "mover: moved-0 would be at 10" in output
    assert at("moved:0=1") == [1, 0]
    (tmp_path / "offsets.csv").write_text(exported_csv)
    assert at("--from-file", str(tmp_path / "offsets.csv")) == [10, 4]
    run("groups delete-offsets mover moved:1")
    assert [
        row["partition"] for row in json.loads(run("groups describe --json").output) if row["group"] == "mover"
    ] == [0]
    assert json.loads(run("groups describe mover --state --json").output)[0]["members"] == 0


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("groups reset g --to-earliest", "specify topics with --topic TOPIC or --all-topics"),
        ("groups reset g --all-topics", "specify one of"),
        ("groups reset g", "nothing to reset"),
        ("groups reset g t=1", "TOPIC:PARTITION"),
    ],
)
def test_errors_are_one_line(run, command, reason):
    with pytest.raises(OptionError, match=reason):
        run(command)
