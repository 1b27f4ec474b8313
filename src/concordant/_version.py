"""The version, in one place: the build reads it here and `concordant --version` prints it."""

__version__ = "0.1.0"
