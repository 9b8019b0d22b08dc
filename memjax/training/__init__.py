"""Training: one pure step over a mesh, a loop around it, and all that a run leaves behind."""
