"""Learning to rank from features: losses, rankers, and the probability of rankings with ties."""
