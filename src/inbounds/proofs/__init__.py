"""Certificates on a known model and from samples, and the stand-alone checker."""
