"""How a consensus is reached: one file per family, found by the registry."""
