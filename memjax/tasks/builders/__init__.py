"""Builders of the tasks that are read from files: TensorFlow Datasets builders, written and read without TensorFlow."""
