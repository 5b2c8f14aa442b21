"""Figures, tables and files of what was run. A report never runs anything."""
