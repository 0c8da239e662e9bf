"""Where tasks lease sequences; apart from who serves and asks there, so that Spark's planner imports little."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Address:
    """How a task reaches the lease server; travels to it with its function."""

    host: str
    port: int
    secret: bytes = field(repr=False)
