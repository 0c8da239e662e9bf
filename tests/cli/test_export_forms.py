"""The formats that a command can name are those that can be written."""

from kafkaframes.cli import export as cli_export


def test_formats_are_those_that_can_be_written():
    from kafkaframes.jobs.export.writers import FORMATS

    assert tuple(FORMATS) == cli_export.FORMATS
