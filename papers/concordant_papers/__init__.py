"""The published tables and figures, regenerated through the public API: one file per paper."""
