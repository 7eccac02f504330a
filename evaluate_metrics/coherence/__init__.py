"""The published metric as a package: the same files that `evaluate.load` reads from this folder alone."""
