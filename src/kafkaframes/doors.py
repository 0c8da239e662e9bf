"""The public functions of the package, each importing its room only when it is called.

``import kafkaframes`` must cost next to nothing (a test holds it under 100 ms and free of numba, pyarrow
and pyspark), so the doors are thin: docstring, signature, one local import.
"""
