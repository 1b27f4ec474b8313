"""What iterative fits share: training loops, labels, optimisers, checkpoints, blocks of instances."""
