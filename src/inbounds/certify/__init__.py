"""Judges: what can be proved of a policy, from the model or from samples, and a checker that trusts none of it."""
