"""Arrays in, arrays out: the arithmetic under everything else. No objects, no files, no global random state."""
