"""Figures and tables of finished work; a report never runs anything."""
