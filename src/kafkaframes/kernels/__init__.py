"""Loading of kernels (machine code) from libraries, and their compilation.

The kernels themselves are in other packages.
"""
