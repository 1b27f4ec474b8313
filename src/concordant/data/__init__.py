"""What is ranked: immutable columnar containers over integer codes. No files, no algorithms."""
