"""Models, operations and random graphs that the tests drive."""
