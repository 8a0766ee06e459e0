"""From a running module to functional nodes: the machinery behind `network.trace`."""
