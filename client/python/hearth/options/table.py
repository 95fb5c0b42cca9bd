"""The described fields below a message in one list, read from its descriptor."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Iterator, Optional, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor, OneofDescriptor
from google.protobuf.message import Message

from hearth.v1 import options_pb2

# The stubs do not accept descriptors of extensions.
_OPTION: Any = options_pb2.option
_CHOICE: Any = options_pb2.choice

# Fields from a root message down. A repeated message stands for its first element.
Path = tuple[FieldDescriptor, ...]
Chosen = dict[str, str]
"""The name of the alternative that is chosen, by the full name of its oneof."""


def path_text(path: Path) -> str:
    """A path without indices: "data.neighbor.fanouts", "trains.sage.hidden"."""
    return ".".join(field.name for field in path)


def without_indices(path: str) -> str:
    """`path` without indices, as path_text writes it."""
    return re.sub(r"\[\d+\]", "", path)


def is_message(field: FieldDescriptor) -> bool:
    return field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE


@dataclass(frozen=True)
class Option:
    """A described field."""

    description: options_pb2.Option
    """The field's description, merged with the description of same_as."""
    path: Path
    alternatives: tuple[FieldDescriptor, ...]
    """Alternatives of one choice; the option applies with any of them. None: always."""

    @property
    def field(self) -> FieldDescriptor:
        return self.path[-1]

    def applies(self, chosen: Chosen) -> bool:
        if not self.alternatives:
            return True
        oneof = self.alternatives[0].containing_oneof
        return oneof is not None and chosen.get(oneof.full_name) in {
            alternative.name for alternative in self.alternatives}


@dataclass(frozen=True)
class Choice:
    """A described oneof; its value is the name of an alternative."""

    description: options_pb2.Option
    path: Path
    """Path of the message that has the oneof."""
    oneof: OneofDescriptor

    @property
    def names(self) -> list[str]:
        return [field.name for field in self.oneof.fields]


@dataclass(frozen=True)
class Named:
    """The choice, or all fields, that one name stands for."""

    name: str
    options: tuple[Option, ...]
    choice: Optional[Choice]
    common: bool
    """Whether the name sets all fields, not only the first that applies."""

    @property
    def alternatives(self) -> list[FieldDescriptor]:
        found: dict[str, FieldDescriptor] = {}
        for option in self.options:
            found.update({one.full_name: one for one in option.alternatives})
        return list(found.values())


class OptionTable:
    """All options below a type of message, in the order of the proto. Immutable."""

    def __init__(self, root: type[Message]) -> None:
        self.choices: list[Choice] = []
        self.options: list[Option] = []
        self._visit(cast(Descriptor, root.DESCRIPTOR), (), ())
        self.options = [self._with_applies_to(option) for option in self.options]
        self._by_name = {name: self._find(name) for name in self._names()}

    @property
    def names(self) -> list[str]:
        return list(self._by_name)

    def named(self, name: str) -> Optional[Named]:
        """The choice or fields of `name`, a flag without its dashes."""
        return self._by_name.get(name)

    def at_path(self, path: str) -> Optional[tuple[Named, Path]]:
        """The option or choice of the field that `path` names, and its path in the table. `path`
        may begin above or below the table's root: "train.data.batch_size" and
        "data.batch_size" are the same."""
        wanted = without_indices(path)
        for named in self._by_name.values():
            if named.common:
                continue
            places = [option.path for option in named.options]
            texts = [path_text(place) for place in places]
            if named.choice is not None:
                places.append(named.choice.path)
                texts.append(".".join(filter(None, [path_text(named.choice.path),
                                                    named.choice.oneof.name])))
            for place, text in zip(places, texts):
                if _is_end_of(wanted, text) or _is_end_of(text, wanted):
                    return named, place
        return None

    def chosen_in(self, message: Message) -> Chosen:
        """The alternatives that `message`, of the root's type, chooses."""
        chosen: Chosen = {}
        for choice in self.choices:
            parent = find(choice.path, message)
            name = parent.WhichOneof(choice.oneof.name) if parent is not None else None
            if name is not None:
                chosen[choice.oneof.full_name] = name
        return chosen

    def _visit(self, message: Descriptor, path: Path,
               alternatives: tuple[FieldDescriptor, ...]) -> None:
        for field in message.fields:
            choice = self._choice_of(field, path)
            below = (*path, field)
            if is_message(field):
                # A choice without a flag is not the user's to make: no condition.
                conditions = (field,) if choice and choice.description.flag else alternatives
                assert field.message_type is not None
                self._visit(field.message_type, below, conditions)
            elif field.GetOptions().HasExtension(_OPTION):
                self.options.append(Option(description_of(field), below, alternatives))

    def _choice_of(self, field: FieldDescriptor, path: Path) -> Optional[Choice]:
        """The described oneof of a field; noted at the first one of its fields."""
        oneof = field.containing_oneof
        if oneof is None or not oneof.GetOptions().HasExtension(_CHOICE):
            return None
        if oneof.fields[0].name == field.name:
            self.choices.append(
                Choice(oneof.GetOptions().Extensions[_CHOICE], path, oneof))
        return self.choices[-1]

    def _with_applies_to(self, option: Option) -> Option:
        more = {alternative.full_name: alternative for choice in self.choices
                for alternative in choice.oneof.fields
                if alternative.name in option.description.applies_to}
        own = {alternative.full_name: alternative for alternative in option.alternatives}
        return replace(option, alternatives=tuple({**own, **more}.values()))

    def _names(self) -> Iterator[str]:
        for choice in self.choices:
            if choice.description.flag:
                yield choice.description.flag
        for option in self.options:
            for name in (option.description.flag, option.description.common_flag):
                if name:
                    yield name

    def _find(self, name: str) -> Named:
        own = tuple(option for option in self.options if option.description.flag == name)
        common = tuple(option for option in self.options
                       if option.description.common_flag == name)
        choice = next((one for one in self.choices if one.description.flag == name), None)
        return Named(name, own or common, choice, common=bool(common))


def _is_end_of(name: str, path: str) -> bool:
    return name == path or path.endswith("." + name)


def description_of(field: FieldDescriptor) -> options_pb2.Option:
    """A field's description, merged with the description of same_as."""
    own = options_pb2.Option()
    own.CopyFrom(field.GetOptions().Extensions[_OPTION])
    if not own.same_as:
        return own
    message, _, name = own.same_as.rpartition(".")
    assert field.containing_type is not None
    messages = field.containing_type.file.message_types_by_name
    description = description_of(messages[message].fields_by_name[name])
    own.ClearField("same_as")
    description.MergeFrom(own)
    return description


def find(path: Path, root: Message) -> Optional[Message]:
    """The message at `path` within `root`; None if it, or one on the way to it, is not set."""
    message = root
    for field in path:
        if field.is_repeated:
            elements = getattr(message, field.name)
            if not elements:
                return None
            message = elements[0]
        elif message.HasField(field.name):
            message = getattr(message, field.name)
        else:
            return None
    return message


def make(path: Path, root: Message) -> Message:
    """The message at `path` within `root`, created with all messages on the way."""
    message = root
    for field in path:
        below = getattr(message, field.name)
        if field.is_repeated:
            message = below[0] if below else below.add()
        else:
            message = below
            message.SetInParent()
    return message
