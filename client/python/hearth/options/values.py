"""Values of options in Python, as text and as fields, and their bounds."""

from __future__ import annotations

import math
import numbers
import re
from typing import Any, Optional, Sequence, Union

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from hearth.options.table import Chosen, Named, Option, find, make
from hearth.v1 import options_pb2

Value = Union[str, bool, int, float, Sequence[Union[str, int, float]]]
"""A value as on the command line ("10,10", "4GiB", "2.5x"), or a number, a bool or a list."""

_BYTE_UNITS = {"": 1, "b": 1, "k": 2**10, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
               "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_WHOLE_RANGES = {FieldDescriptor.CPPTYPE_INT32: (-2**31, 2**31 - 1),
                 FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
                 FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1)}


def text_of(named: Named, value: Value) -> str:
    """The value as on a command line. Raises TypeError for objects that are no values."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        words = _words(named.options[0].description) if named.options else ["false", "true"]
        return words[value]
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return ",".join(text_of(named, one) for one in value)
    raise TypeError(f"{named.name}: {value!r} is not a text, a number, a bool or a list of them")


def python_value(named: Optional[Named], text: str) -> Union[str, bool, int, float]:
    """The value of `text` as a number or bool, if the option takes one and no list."""
    for option in named.options if named is not None else ():
        kind = option.field.cpp_type
        if option.field.is_repeated or kind == FieldDescriptor.CPPTYPE_STRING:
            continue
        try:
            value: Union[bool, int, float] = _parse(option, text)
        except ValueError:
            continue
        return value
    return text


def set_from_text(option: Option, text: str, root: Message) -> bool:
    """Sets the option's field below `root`; unset_word clears it. False, without a change, for
    texts that it cannot have."""
    try:
        values = ([] if text == option.description.unset_word != ""
                  else _parse_all(option, text))
    except ValueError:
        return False
    if not values:
        before = find(option.path[:-1], root)
        if before is not None:
            # Clears the other fields of the same name, too.
            oneof = option.field.containing_oneof
            named = before.WhichOneof(oneof.name) if oneof is not None else option.field.name
            if named is not None:
                before.ClearField(named)
        return True
    parent = make(option.path[:-1], root)
    parent.ClearField(option.field.name)
    if option.field.is_repeated:
        getattr(parent, option.field.name).extend(values)
    else:
        for value in values:
            setattr(parent, option.field.name, value)
    return True


def to_text(option: Option, root: Message) -> Optional[str]:
    """The field's value, as set_from_text takes it; None for a field that is not set and has no
    unset_word."""
    parent = find(option.path[:-1], root)
    if not is_set(option, root) and option.description.unset_word:
        return option.description.unset_word
    if parent is None or not (is_set(option, root) or _zero_is_meant(option)):
        return None
    value = getattr(parent, option.field.name)
    if isinstance(value, (str, bool)):
        return value if isinstance(value, str) else _words(option.description)[value]
    if option.field.is_repeated:
        return ",".join(repr(one).removesuffix(".0") for one in value)
    if option.description.unit == options_pb2.Option.BYTES:
        return _bytes_text(value)
    text = repr(value).removesuffix(".0")
    return text + "x" if option.description.unit == options_pb2.Option.TIMES else text


def is_set(option: Option, root: Message) -> bool:
    """Whether the field is set; for a field without presence, whether it is not zero."""
    parent = find(option.path[:-1], root)
    if parent is None:
        return False
    if option.field.has_presence:
        return parent.HasField(option.field.name)
    return bool(getattr(parent, option.field.name))


def default_of(description: options_pb2.Option, chosen: Chosen) -> str:
    """The default of an option or a choice with the alternatives `chosen`; empty without one."""
    for differing in description.default_for:
        if differing.alternative in chosen.values():
            return differing.value
    return description.default_value


def value_words(named: Named) -> str:
    """Texts that an option takes, in words: "a whole number from 1 to 16"."""
    if named.choice is not None:
        return "one of " + ", ".join(named.choice.names)
    return " or ".join(dict.fromkeys(_words_of(option) for option in named.options))


def parse_byte_size(text: str) -> int:
    """Bytes of "512MiB" or "1.5 GB". Raises ValueError for anything else."""
    match = re.fullmatch(r"([0-9.]+)\s*([A-Za-z]*)\s*", text)
    if match is None or match[2].lower() not in _BYTE_UNITS:
        raise ValueError(text)
    factor = _BYTE_UNITS[match[2].lower()]
    return int(match[1]) * factor if match[1].isdigit() else round(float(match[1]) * factor)


def _parse_all(option: Option, text: str) -> list[Any]:
    if not option.field.is_repeated:
        return [_parse(option, text)]
    parts = text.split(",")
    if len(parts) > option.description.max_count:
        raise ValueError(text)
    return [_parse(option, part) for part in parts]


def _parse(option: Option, text: str) -> Any:
    """One value, or one element. Raises ValueError."""
    description, kind = option.description, option.field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_STRING:
        if description.words and text not in description.words:
            raise ValueError(text)
        return text
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return bool(_words(description).index(text))
    number: Union[int, float]
    if kind == FieldDescriptor.CPPTYPE_DOUBLE:
        if description.unit == options_pb2.Option.TIMES and not text.endswith("x"):
            raise ValueError(text)
        number = float(text[:-1] if description.unit == options_pb2.Option.TIMES else text)
        within = math.isfinite(number)
    else:
        number = (parse_byte_size(text) if description.unit == options_pb2.Option.BYTES
                  else int(text))
        low, high = _WHOLE_RANGES[kind]
        within = low <= number <= high
    if not within or not (text == description.special_value != ""
                          or _is_within_bounds(description, number)):
        raise ValueError(text)
    return number


def _is_within_bounds(description: options_pb2.Option, number: float) -> bool:
    def bound(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            return parse_byte_size(text)

    return ((not description.min or number >= bound(description.min))
            and (not description.above or number > bound(description.above))
            and (not description.max or number <= bound(description.max))
            and (not description.below or number < bound(description.below)))


def _zero_is_meant(option: Option) -> bool:
    """Whether a zero stands for itself rather than for a default."""
    description, field = option.description, option.field
    return (not field.is_repeated and not field.has_presence and not description.default_help
            and not description.above
            and (not description.min or not _is_above_zero(description.min)))


def _is_above_zero(text: str) -> bool:
    return not text.startswith(("-", "0"))


def _words(description: options_pb2.Option) -> list[str]:
    return list(description.words) or ["false", "true"]


def _bytes_text(count: int) -> str:
    units = ("", "KiB", "MiB", "GiB", "TiB")
    unit = 0
    while count != 0 and count % 1024 == 0 and unit + 1 < len(units):
        count //= 1024
        unit += 1
    return f"{count}{units[unit]}"


def _words_of(option: Option) -> str:
    description, kind = option.description, option.field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_STRING and not description.words:
        words = "a text"
    elif kind in (FieldDescriptor.CPPTYPE_STRING, FieldDescriptor.CPPTYPE_BOOL):
        several = _words(description)
        words = several[0] if len(several) == 1 else "one of " + ", ".join(several)
    else:
        form = {options_pb2.Option.BYTES: "size such as 512MiB or 4GB",
                options_pb2.Option.TIMES: "multiple such as 2.5x"}.get(
                    description.unit,
                    "number" if kind == FieldDescriptor.CPPTYPE_DOUBLE else "whole number")
        words = (f"a list of up to {description.max_count} {form}s" if option.field.is_repeated
                 else f"a {form}") + _range_words(option)
        if description.special_value:
            words += f", or {description.special_value} ({description.special_help})"
    if not description.unset_word or description.unset_word in description.words:
        return words
    return f"{description.unset_word} or {words}"


def _range_words(option: Option) -> str:
    description, kind = option.description, option.field.cpp_type
    is_size = description.unit == options_pb2.Option.BYTES
    if kind != FieldDescriptor.CPPTYPE_DOUBLE and not is_size:
        _, most = _WHOLE_RANGES[kind]
        return f" from {description.min or 0} to {description.max or most}"
    parts = [f"{words} {bound}" for words, bound in (
        ("of at least", description.min), ("above", description.above),
        # The upper bound of a size is far beyond any use.
        ("at most", "" if is_size else description.max), ("below", description.below)) if bound]
    return " " + " and ".join(parts) if parts else ""
