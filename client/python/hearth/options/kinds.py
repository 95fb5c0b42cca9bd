"""Specs of jobs of every kind, made of the options of Python programs.

Options of `train`, `prepare`, `explain` and `feed` are in specs.py. Jobs of other kinds have few options,
which spec.proto does not describe: here are their names on the command line and their fields.
Types of fields come from the proto.
"""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Mapping, Optional, Sequence, cast

from google.protobuf.descriptor import Descriptor, EnumDescriptor
from google.protobuf.message import Message

from hearth.errors import invalid
from hearth.options.specs import feed_spec, option_named_by, train_spec
from hearth.options.table import Named, Option, Path, description_of, make, without_indices
from hearth.options.values import Value, set_from_text, text_of, value_words
from hearth.v1 import spec_pb2

# Names of flags, and their fields in the spec of the kind; a list has a field for each element.
_FIELDS: dict[str, dict[str, tuple[str, ...]]] = {
    "import": {
        "name": ("name",), "source": ("path",), "format": ("format",),
        "in-place": ("in_place",), "memory-limit": ("memory_limit_bytes",),
        "labels": ("labels",), "non-finite": ("non_finite",),
        "fill-features": ("fill_features",), "bfloat16": ("bfloat16_features",),
        "undirected": ("edges.add_reverse",), "dedup": ("edges.remove_duplicates",),
        "self-loops": ("edges.self_loops",), "relabel": ("edge_list.relabel",),
        "header": ("edge_list.header",),
        "columns": ("edge_list.source_column", "edge_list.destination_column"),
        "split": ("ogb.split",), "igb-classes": ("igb.num_classes",),
        "split-seed": ("igb.split_seed",)},
    "generate": {
        "name": ("name",), "nodes": ("num_nodes",), "edges": ("num_edges",),
        "undirected": ("undirected",), "communities": ("communities.num_communities",),
        "inside": ("communities.inside",), "exponent": ("communities.exponent",),
        "rmat": ("rmat.a", "rmat.b", "rmat.c"), "seed": ("seed",), "dim": ("feature_dim",),
        "dtype": ("feature_dtype",), "classes": ("num_classes",), "train": ("train_share",),
        "valid": ("valid_share",), "test": ("test_share",), "to": ("destination",),
        "format": ("format",), "memory-limit": ("memory_limit_bytes",)},
    "export_dataset": {"dataset": ("dataset",), "to": ("destination",), "format": ("format",)},
    "verify": {"dataset": ("dataset",)},
    "export": {"job": ("job_id",), "to": ("destination",)},
    "evaluate": {"job": ("job_id",)},
}
_REQUIRED = {"import": ("name", "source"), "generate": ("nodes", "edges"),
             "export_dataset": ("dataset", "to"), "verify": ("dataset",),
             "export": ("job", "to"), "evaluate": ("job",)}
# Options that choose the alternative of a oneof; the first alternative is the default.
_CHOICES = {"generate": {"graph": ("communities", "rmat")}}
_PATHS = ("source", "to")
# Words of enums that differ from the names of their values.
_WORDS = {"SelfLoops": ("keep", "remove", "add"), "NonFinite": ("refuse", "keep", "zero"),
          "FeatureFill": ("none", "mean"), "EdgeListHeader": ("auto", "yes", "no")}
_DESCRIBED_KINDS = ("train", "prepare", "explain", "feed")
KINDS = (*_DESCRIBED_KINDS, *_FIELDS)
"""All kinds of jobs."""


def job_spec(kind: str, values: Mapping[str, Value]) -> spec_pb2.JobSpec:
    """The job of a kind that the options describe. Raises InvalidRequest, which names the option
    as it was given."""
    if kind not in KINDS:
        raise invalid("kind", f'"{kind}" ' + _unknown(kind, KINDS, "is not a kind of jobs"))
    spec = spec_pb2.JobSpec()
    if kind == "train":
        spec.train.CopyFrom(train_spec(values))
    elif kind == "explain":
        spec.explain.train.CopyFrom(train_spec(values))
    elif kind == "feed":
        spec.feed.CopyFrom(feed_spec(values))
    elif kind == "prepare":
        _set_prepare(dict(values), spec.prepare)
    else:
        _set_fields(kind, values, _message(kind, spec))
    return spec


def option_of(kind: str, path: str) -> str:
    """The option, as a keyword, of the field at `path` in an error of the daemon; `path` itself if
    there is none."""
    if kind in _DESCRIBED_KINDS:
        return option_named_by(path.removeprefix(kind + "."))
    wanted = without_indices(path).removeprefix(kind + ".")
    return next((_keyword(name) for name, fields in _FIELDS[kind].items() if wanted in fields),
                path)


def _set_prepare(values: dict[str, Value], spec: spec_pb2.PrepareSpec) -> None:
    partition_only = values.pop("partition", False)
    if not isinstance(partition_only, bool):
        raise invalid("partition", f"{partition_only!r} is not one of False, True")
    if partition_only:
        values.setdefault("order", "partition")
    pieces, num_pieces = values.pop("pieces", ""), values.pop("num_pieces", 0)
    if not isinstance(pieces, (str, os.PathLike)):
        raise invalid("pieces", f"{pieces!r} is not a path")
    if not isinstance(num_pieces, int) or isinstance(num_pieces, bool) or num_pieces < 0:
        raise invalid("num_pieces", f"{num_pieces!r} is not a number of pieces")
    train = train_spec(values)
    spec.data.CopyFrom(train.data)
    if train.HasField("pipeline"):
        spec.pipeline.CopyFrom(train.pipeline)
    model = getattr(train.trains[0], train.trains[0].WhichOneof("model") or "none")
    spec.training_only = train.trains[0].HasField("none")
    spec.partition_only = partition_only
    spec.pieces = os.path.abspath(pieces) if pieces else ""
    spec.num_pieces = num_pieces
    spec.hidden = getattr(model, "hidden", 0)


def _set_fields(kind: str, values: Mapping[str, Value], spec: Message) -> None:
    given = {name.replace("_", "-"): value for name, value in values.items()}
    missing = next((name for name in _REQUIRED[kind] if name not in given), None)
    if missing is not None:
        raise invalid(_keyword(missing), "is required")
    chosen = _choose(kind, given, spec)
    for name, value in given.items():
        fields = _FIELDS[kind].get(name)
        if fields is None:
            known = [*_FIELDS[kind], *_CHOICES.get(kind, {})]
            raise invalid(_keyword(name), _unknown(name, known, "is not an option"))
        first = fields[0].partition(".")[0]
        if chosen is not None and first in chosen[1] and first != chosen[0]:
            raise invalid(_keyword(name), f"applies with {chosen[2]} {first} only")
        _set(name, fields, value, spec)


def _choose(kind: str, given: dict[str, Value],
            spec: Message) -> Optional[tuple[str, tuple[str, ...], str]]:
    """Makes the choice of a kind: returns the alternative, all alternatives, and the option."""
    for name, alternatives in _CHOICES.get(kind, {}).items():
        chosen = given.pop(name, alternatives[0])
        if chosen not in alternatives:
            raise invalid(name, f'"{chosen}" is not one of {", ".join(alternatives)}')
        getattr(spec, str(chosen)).SetInParent()
        return str(chosen), alternatives, name
    return None


def _set(name: str, fields: tuple[str, ...], value: Value, spec: Message) -> None:
    values: list[Value] = [value]
    if len(fields) > 1:
        values = list(value.split(",") if isinstance(value, str) else cast("list[Value]", value))
        if len(values) != len(fields):
            raise invalid(_keyword(name), f"{value!r} is not a list of {len(fields)} values")
    for path, one in zip(fields, values):
        _field(cast(Descriptor, spec.DESCRIPTOR), path).set(name, one, spec)


@dataclass(frozen=True)
class _Field:
    """A field of a spec."""

    option: Option
    words: Optional[dict[str, int]]
    """Values of an enum by their words; None for other fields."""

    def set(self, name: str, value: Value, spec: Message) -> None:
        named = Named(name, (self.option,), None, common=False)
        try:
            text = text_of(named, value)
        except TypeError as error:
            raise invalid(_keyword(name), f"{value!r} is not {self._can_be(named)}") from error
        if self.words is not None:
            if text not in self.words:
                raise invalid(_keyword(name), f'"{text}" is not {self._can_be(named)}')
            setattr(make(self.option.path[:-1], spec), self.option.field.name, self.words[text])
            return
        if name in _PATHS:
            text = os.path.abspath(text)
        if not set_from_text(self.option, text, spec):
            raise invalid(_keyword(name), f'"{text}" is not {self._can_be(named)}')

    def _can_be(self, named: Named) -> str:
        return f"one of {', '.join(self.words)}" if self.words is not None else value_words(named)


@lru_cache(maxsize=None)
def _field(message: Descriptor, path: str) -> _Field:
    fields: Path = ()
    for part in path.split("."):
        fields = (*fields, message.fields_by_name[part])
        message = cast(Descriptor, fields[-1].message_type)
    enum = fields[-1].enum_type
    return _Field(Option(description_of(fields[-1]), fields, ()),
                  _words(enum) if enum is not None else None)


def _words(enum: EnumDescriptor) -> dict[str, int]:
    own = _WORDS.get(enum.name)
    return {own[value.number] if own else
            value.name.lower().replace("_", "-") if value.number else "auto": value.number
            for value in enum.values}


def _message(kind: str, spec: spec_pb2.JobSpec) -> Message:
    message: Message = getattr(spec, kind)
    message.SetInParent()
    return message


def _keyword(name: str) -> str:
    return name.replace("-", "_")


def _unknown(name: str, known: Sequence[str], words: str) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return words + (f"; did you mean {_keyword(near[0])}?" if near else "")
