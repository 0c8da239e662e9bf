"""The spec that a name on the command line stands for."""

from tests.cli.calling import ask_spec as run


def test_what_is_not_there():
    for arguments in (("show", "Nonsense"), ("show", "Metadata", "99"), ("diff", "Metadata", "0", "99")):
        run(*arguments, status=1)
    run("show", "missing.json", status=1)
