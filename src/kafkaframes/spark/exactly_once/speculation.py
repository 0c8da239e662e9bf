"""A check that exactly-once writes run without Spark's speculative execution."""

from __future__ import annotations

from typing import Final

from kafkaframes.errors import OptionError

SPECULATION_SETTING: Final = "spark.speculation"


def check_speculation(value: str | None) -> None:
    """Reject a session with speculative execution, by its value of ``SPECULATION_SETTING``.

    Raises:
        OptionError: The session may run two attempts of a task at the same time.
    """
    if (value or "").strip().lower() == "true":
        raise OptionError(
            "spark.speculation is true: the second copy of a task would write its rows again, so each micro-batch with "
            "a slow task would fail. Use a session without spark.speculation for exactly-once writes"
        )
