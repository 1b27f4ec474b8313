"""Readers and writers of files, and conversion of dataframes. Only this package touches files of data."""
