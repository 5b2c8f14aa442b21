"""Many runs: workers, the journal, the paper's experiment."""
