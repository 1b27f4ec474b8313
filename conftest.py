"""Runs linear algebra on one thread in all tests and doctests, and in the processes they start.

The matrices of the tests are small. On more than one thread their products and solutions take up to ten times as long,
because the processes of a test run wait for each other's threads. OPENBLAS_NUM_THREADS=2 in the environment overrides
this.
"""

import os

# Before NumPy is imported, which reads it once.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
