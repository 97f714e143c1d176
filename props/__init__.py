"""Property tests of kernels against the reference, for any library."""
