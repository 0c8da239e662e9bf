"""Tests of a message or an API that run at all of its versions within one test."""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps


def at_every_version(of: str, versions: Callable[..., Iterable[int]]):
    """Return a decorator that runs a test with ``version`` at all ``versions`` of its argument ``of``; a failure names
    the version.

    A separate test per version costs 2 ms more in each process of the suite, to collect, distribute and report it.
    """

    def decorated(test):
        @wraps(test)
        def walk(**arguments):
            for version in versions(arguments[of]):
                try:
                    test(**arguments, version=version)
                except BaseException as error:
                    error.add_note(f"at version {version}")
                    raise

        parameters = inspect.signature(test).parameters.values()
        walk.__signature__ = inspect.Signature([parameter for parameter in parameters if parameter.name != "version"])
        return walk

    return decorated
