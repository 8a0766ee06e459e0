"""What an element does to tensors: in memory, in place, in files, and to first order."""
