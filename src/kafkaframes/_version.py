"""The release; the build reads it here (``pyproject.toml``), and each package may."""

__version__ = "1.0.0"
