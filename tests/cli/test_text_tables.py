"""Tables in a terminal and in a pipe."""

from kafkaframes.cli.text import print_table


def test_columns_are_aligned_and_empty_ones_are_omitted(capsys):
    print_table(("name", "nothing", "size"), [("orders", "", "1 KiB"), ("t", "", "12 KiB")])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[0].split() == ["name", "size"]
    assert lines[2].index("1") == lines[3].index("12")


def test_control_characters_are_escaped_and_brackets_are_printed(capsys):
    print_table(("name", "why"), [("a\x1b[31m", "[bold]x[/bold]")])
    output = capsys.readouterr().out
    assert "\x1b" not in output
    assert r"a\x1b[31m" in output
    assert "[bold]x[/bold]" in output
