"""Features of items from what experts say: potentials and singular vectors, the same for training and prediction."""
