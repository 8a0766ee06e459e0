"""Paper 001, Symmetries, flat minima and the conserved quantities of gradient flow, re-run."""
