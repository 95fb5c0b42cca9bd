"""Values of an option that a sweep searches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence, Union

from hearth.errors import invalid
from hearth.options.table import Named
from hearth.options.values import Value, text_of
from hearth.v1 import sweeps_pb2


@dataclass(frozen=True)
class Choice:
    """One of several values."""

    values: tuple[Value, ...]

    def __init__(self, *values: Value) -> None:
        object.__setattr__(self, "values", values)


@dataclass(frozen=True)
class Integers:
    """Whole numbers from `low` to `high`; in a grid `steps` of them, 0 = all."""

    low: int
    high: int
    steps: int = 0


@dataclass(frozen=True)
class Uniform:
    """Numbers from `low` to `high`; in a grid `steps` of them."""

    low: float
    high: float
    steps: int = 0


@dataclass(frozen=True)
class LogUniform:
    """Numbers from `low` to `high` whose logarithm is uniform; in a grid `steps` of them."""

    low: float
    high: float
    steps: int = 0


Range = Union[Integers, Uniform, LogUniform]
Domain = Union[Choice, Integers, Uniform, LogUniform]
Space = Union[Domain, str, Sequence[Value]]
"""A domain, a list of values, or a text as on the command line: "log:1e-4:1e-1"."""

_FORMS = ("is not VALUE,VALUE,... or one of int, uniform and log with :LOW:HIGH, and :STEPS for "
          "a grid")


def domain_of(name: str, values: Space) -> Domain:
    """The domain of `values`. Raises InvalidRequest if they are none."""
    if isinstance(values, (Choice, Integers, Uniform, LogUniform)):
        return values
    if not isinstance(values, str):
        return Choice(*values)
    kind, _, rest = values.partition(":")
    try:
        if kind == "int":
            return Integers(*map(int, _bounds(rest)))
        if kind in ("uniform", "log"):
            low, high, *steps = _bounds(rest)
            make = Uniform if kind == "uniform" else LogUniform
            return make(float(low), float(high), *map(int, steps))
    except ValueError as error:
        raise invalid(f"space {name}", f'"{values}" {_FORMS}') from error
    parts = values.split("|" if "|" in values else ",")
    if not all(parts):
        raise invalid(f"space {name}", f'"{values}" {_FORMS}')
    return Choice(*parts)


def _bounds(text: str) -> list[str]:
    parts = text.split(":")
    if not 2 <= len(parts) <= 3:
        raise ValueError(text)
    return parts


def parameter(named: Named, domain: Domain) -> sweeps_pb2.SweepParameter:
    """The parameter of a sweep."""
    made = sweeps_pb2.SweepParameter(name=named.name)
    if isinstance(domain, Choice):
        made.choice.values.extend(text_of(named, value) for value in domain.values)
        made.choice.SetInParent()
    elif isinstance(domain, Integers):
        made.integers.low, made.integers.high, made.integers.steps = (
            domain.low, domain.high, domain.steps)
        made.integers.SetInParent()
    else:
        numbers = made.uniform if isinstance(domain, Uniform) else made.log_uniform
        numbers.low, numbers.high, numbers.steps = domain.low, domain.high, domain.steps
        numbers.SetInParent()
    return made
