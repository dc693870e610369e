"""The laboratory of superteach: rivals, the paper measured again, mixed-integer solvers, published data."""
