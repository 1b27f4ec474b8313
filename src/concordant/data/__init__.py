"""Containers of preferences, comparisons, features, labels and results: immutable columns over integer codes."""
