"""Arrays in, arrays out: rows, chains, elimination, sweeps, and how kernels are compiled."""
