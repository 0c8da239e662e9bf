"""The table of clients in docs/clients.md: the trials of a run replace those of an older run."""

from types import SimpleNamespace

from tests.interop.clients_page import PAGE, PROPERTY, merge_rows, rows_of

OLD = [("Sarama", "1.40.0", "codecs", "passed", "2026-01-01"), ("aiokafka", "0.14.0", "admin", "x", "2026-01-01")]


def report(trial, seen_text="", when="call", reason=""):
    note = {"name": "Sarama", "version": "1.40.0", "trial": trial, "seen": seen_text}
    return SimpleNamespace(user_properties=[(PROPERTY, note)], when=when, longrepr=("file", 1, f"Skipped: {reason}"))


def empty_page():
    before, rest = PAGE.read_text().split("| --- | --- | --- | --- | --- |\n")
    return (
        f"{before}| --- | --- | --- | --- | --- |\n\n<!-- end of clients -->{rest.split('<!-- end of clients -->')[1]}"
    )


def test_a_row_takes_the_place_of_the_same_client_and_version():
    page = merge_rows(empty_page(), OLD)
    new = ("Sarama", "1.40.0", "codecs; admin", "passed", "2026-02-02")
    newest = ("Sarama", "1.61.1", "codecs", "passed", "2026-02-02")
    rows = merge_rows(page, [new, newest]).splitlines()
    start = rows.index("| --- | --- | --- | --- | --- |") + 1
    assert rows[start : start + 3] == [f"| {' | '.join(row)} |" for row in (OLD[1], newest, new)]


def test_rows_say_what_was_seen_what_failed_and_what_was_not_asked():
    codecs, kills = ("passed", report("codecs", "gzip, lz4")), report("kill -9")
    seen_text = "codecs (gzip, lz4); kill -9"
    assert rows_of([codecs, ("passed", kills)], "d") == [("Sarama", "1.40.0", seen_text, "passed", "d")]
    assert rows_of([codecs, ("failed", kills)], "d") == [("Sarama", "1.40.0", seen_text, "**failed**: kill -9", "d")]
    missing = ("skipped", report("kill -9", when="setup", reason="no go on the PATH"))
    assert rows_of([codecs, missing], "d")[0][3] == "not tried: no go on the PATH"


def test_the_page_is_as_a_run_leaves_it():
    page = PAGE.read_text()
    assert merge_rows(page, []) == page
