"""Loading of kernels (machine code) from libraries, and their compilation.

The code of the kernels is in other packages.
"""
