"""Groups of linear and affine maps of Rⁿ: sizes in; elements, algebras and a lattice out."""

from paramsym.groups.affine import Affine as Affine
from paramsym.groups.affine import Translation as Translation
from paramsym.groups.base import Group as Group
from paramsym.groups.canonical import canonical as canonical
from paramsym.groups.centred import Centred as Centred
from paramsym.groups.diagonal import Diagonal as Diagonal
from paramsym.groups.diagonal import PositiveScaling as PositiveScaling
from paramsym.groups.diagonal import Signs as Signs
from paramsym.groups.diagonal import Trivial as Trivial
from paramsym.groups.elements import Element as Element
from paramsym.groups.general_linear import GeneralLinear as GeneralLinear
from paramsym.groups.general_linear import SpecialLinear as SpecialLinear
from paramsym.groups.matrix import MatrixGroup as MatrixGroup
from paramsym.groups.monomial import Monomial as Monomial
from paramsym.groups.monomial import PositiveMonomial as PositiveMonomial
from paramsym.groups.monomial import SignedPermutation as SignedPermutation
from paramsym.groups.orthogonal import Orthogonal as Orthogonal
from paramsym.groups.orthogonal import SpecialOrthogonal as SpecialOrthogonal
from paramsym.groups.permutation import Permutation as Permutation
from paramsym.groups.product import Product as Product
from paramsym.groups.repeated import Repeated as Repeated
from paramsym.groups.special import Special as Special
from paramsym.groups.wreath import Wreath as Wreath
