"""Learning to rank from features, and the features that experts give."""
