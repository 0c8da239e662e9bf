"""The table of clients in docs/clients.md: trials of a new run replace those of an older run."""

from types import SimpleNamespace

from tests.interop.clients_page import PAGE, PROPERTY, merge_rows, rows_of

OLD_REPORTS = [
    ("Sarama", "1.40.0", "codecs", "passed", "2026-01-01"),
    ("aiokafka", "0.14.0", "admin", "x", "2026-01-01"),
]


def report(trial, seen_text="", when="call", reason=""):
    note = {"name": "Sarama", "version": "1.40.0", "trial": trial, "seen": seen_text}
    return SimpleNamespace(user_properties=[(PROPERTY, note)], when=when, longrepr=("file", 1, f"Skipped: {reason}"))


def empty_page():
    before, rest = PAGE.read_text().split("| --- | --- | --- | --- | --- |\n")
    return (
        f"{before}| --- | --- | --- | --- | --- |\n\n<!-- end of clients -->{rest.split('<!-- end of clients -->')[1]}"
    )


def test_a_row_replaces_that_of_the_same_client_and_version():
    page = merge_rows(empty_page(), OLD_REPORTS)
    new = ("Sarama", "1.40.0", "codecs; admin", "passed", "2026-02-02")
    newest = ("Sarama", "1.61.1", "codecs", "passed", "2026-02-02")
    rows = merge_rows(page, [new, newest]).splitlines()
    start = rows.index("| --- | --- | --- | --- | --- |") + 1
    assert rows[start : start + 3] == [f"| {' | '.join(row)} |" for row in (OLD_REPORTS[1], newest, new)]


def test_rows_show_passed_failed_and_skipped_trials():
    codecs, kills = ("passed", report("codecs", "gzip, lz4")), report("kill -9")
    seen_text = "codecs (gzip, lz4); kill -9"
    assert rows_of([codecs, ("passed", kills)], "d") == [("Sarama", "1.40.0", seen_text, "passed", "d")]
    assert rows_of([codecs, ("failed", kills)], "d") == [("Sarama", "1.40.0", seen_text, "**failed**: kill -9", "d")]
    missing = ("skipped", report("kill -9", when="setup", reason="no go on the PATH"))
    assert rows_of([codecs, missing], "d")[0][3] == "not tried: no go on the PATH"


def test_the_page_is_unchanged_when_it_is_written_again():
    page = PAGE.read_text()
    assert merge_rows(page, []) == page
