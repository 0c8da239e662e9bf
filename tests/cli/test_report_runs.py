"""``report`` before and after its measurement: its time, its destination, the file that it writes."""

import pytest

from kafkaframes.cli.report import _check_arguments, _parse_report_time, _write_page
from kafkaframes.errors import LogDirError, OptionError


def test_the_time_on_a_page_is_given_or_the_current_time(monkeypatch):
    assert (
        _parse_report_time("2026-11-21T15:00:00")
        == _parse_report_time("2026-11-21T16:00:00+01:00")
        == 1_795_273_200_000
    )
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "12")
    assert _parse_report_time(None) == 12_000
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "soon")
    assert _parse_report_time(None) > 1_700_000_000_000
    with pytest.raises(OptionError, match="--generated-at soon"):
        _parse_report_time("soon")


def test_a_page_is_written_completely_or_not_at_all(tmp_path, monkeypatch):
    target = tmp_path / "report.html"
    target.write_text("before")
    with monkeypatch.context() as patch:
        patch.setattr(type(target), "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
        with pytest.raises(LogDirError, match="cannot be written: No space left"):
            _write_page("after", str(target))
    assert [path.read_text() for path in tmp_path.iterdir()] == ["before"]
    _write_page("after \udce9", str(target))
    assert target.read_text() == "after \\udce9"


def test_a_destination_is_checked_before_the_log_is_read(tmp_path):
    for output, reason in ((str(tmp_path), "is a directory"), (str(tmp_path / "no" / "r"), "does not exist")):
        with pytest.raises(OptionError, match=reason):
            _check_arguments(output, [])
    with pytest.raises(OptionError, match="sources are never changed"):
        _check_arguments(str(tmp_path / "report.html"), [str(tmp_path)])
    _check_arguments("-", [str(tmp_path)])
