"""Many runs: tasks and workers, the journal, what comparisons and the paper's experiment came to."""
