"""The learner, its snapshots and its health."""
