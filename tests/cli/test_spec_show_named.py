"""The spec for a name on the command line."""

from tests.cli.calling import ask_spec as run


def test_an_unknown_name_is_rejected():
    for arguments in (("show", "Nonsense"), ("show", "Metadata", "99"), ("diff", "Metadata", "0", "99")):
        run(*arguments, status=1)
    run("show", "missing.json", status=1)
