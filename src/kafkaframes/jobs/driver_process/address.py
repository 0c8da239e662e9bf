"""Define the address at which Spark tasks reach a server on the driver's machine.

This class has its own module so that Spark's planner does not import the server.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TaskServerAddress:
    """Host, port and shared secret of a server on the driver's machine.

    Instances are pickled with a task's function.
    """

    host: str
    port: int
    secret: bytes = field(repr=False)
