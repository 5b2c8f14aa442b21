"""Many runs: seeds, workers, statistics."""
