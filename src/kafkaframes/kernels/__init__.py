"""How kernels come to be machine code: found ready, or compiled. What kernels compute stands in their own packages."""
