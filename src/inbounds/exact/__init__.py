"""Solvers that see the model."""
