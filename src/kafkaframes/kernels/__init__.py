"""How kernels become machine code: loaded from a library, or compiled. The kernels themselves are in other packages."""
