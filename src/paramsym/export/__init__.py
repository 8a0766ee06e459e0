"""A symmetry in the words of other tools: it goes in, plain lists of tensors and axes come out."""

from paramsym.export.mappings import Mapping, mappings
from paramsym.export.permutations import Permutation, PermutationSpec, permutation_spec
from paramsym.export.uses import Use

__all__ = ["Mapping", "Permutation", "PermutationSpec", "Use", "mappings", "permutation_spec"]
