"""Specs of jobs and sweeps, made of the options of Python programs, and back.

Names are names of flags and job files, with `_` or `-` ("batch_size"), or paths of fields
("data.batch_size", "adam.learning_rate"). A path through an alternative of a choice, such as
"adam", chooses it. Errors are InvalidRequest, which names the option as it was given.
"""

from __future__ import annotations

import difflib
from typing import Mapping, Optional, TypeVar, Union

from google.protobuf.message import Message

from hearth.errors import invalid
from hearth.options.table import (Chosen, Named, OptionTable, Path, description_of, find,
                                  make)
from hearth.options.values import (Value, default_of, is_set, set_from_text, text_of, to_text,
                                   value_words)
from hearth.space import Space, domain_of, parameter
from hearth.v1 import spec_pb2, sweeps_pb2

TRAIN = OptionTable(spec_pb2.TrainJobSpec)
FEED = OptionTable(spec_pb2.FeedSpec)
SWEEP = OptionTable(sweeps_pb2.SweepSpec)
_JOB = OptionTable(spec_pb2.JobSpec)
METRICS = tuple(next(option.description.words for option in TRAIN.options
                     if option.field.full_name.endswith(".TrainSpec.metric")))
"""The metrics that predictions are judged by."""
Given = TypeVar("Given")


def merged(options: Optional[Mapping[str, Given]],
           more: Mapping[str, Value]) -> dict[str, Union[Given, Value]]:
    """The options of the mapping and the keywords together; keywords win."""
    left = {name: value for name, value in (options or {}).items()
            if name.replace("-", "_") not in more}
    return {**left, **more}


def train_spec(values: Mapping[str, Value]) -> spec_pb2.TrainJobSpec:
    """The train job that the options describe."""
    spec = spec_pb2.TrainJobSpec()
    _set_all(TRAIN, _texts(TRAIN, values), spec)
    return spec


def feed_spec(values: Mapping[str, Value]) -> spec_pb2.FeedSpec:
    """The feed job that the options describe."""
    spec = spec_pb2.FeedSpec()
    _set_all(FEED, _texts(FEED, values), spec)
    return spec


def sweep_spec(values: Mapping[str, Value], space: Mapping[str, Space]) -> sweeps_pb2.SweepSpec:
    """The sweep that the options of its jobs and of its search describe."""
    spec = sweeps_pb2.SweepSpec()
    _set_all(SWEEP, _texts(SWEEP, values), spec)
    for name, domain in space.items():
        named = searched(name, f"space {name}")
        spec.space.append(parameter(named, domain_of(named.name, domain)))
    return spec


def searched(name: str, field: Optional[str] = None) -> Named:
    """The option of a train job that a sweep searches as `name`. Errors name `field`, by default
    `name`."""
    named = TRAIN.named(name.replace("_", "-"))
    if named is None:
        raise _unknown(TRAIN, name, field or name)
    return named


def trial_settings(values: Mapping[str, Value]) -> list[sweeps_pb2.TrialSetting]:
    """The parameters of a trial that is added."""
    settings = []
    for name, value in values.items():
        named = searched(name)
        settings.append(sweeps_pb2.TrialSetting(name=named.name, value=text_of(named, value)))
    return settings


def change_options(values: Mapping[str, Value], spec: spec_pb2.JobSpec) -> None:
    """Changes options in the spec of an existing job."""
    chosen = _JOB.chosen_in(spec)
    kind = spec.WhichOneof("kind")
    for name, text in _texts(_JOB, values).items():
        named = _JOB.named(name)
        assert named is not None
        own = tuple(option for option in named.options if option.path[0].name == kind)
        if named.choice is not None or not own:
            raise invalid(_keyword(name), f"is not for a job of kind {kind}")
        _set_first(Named(name, own, None, named.common), text, chosen, spec)


def job_options(spec: spec_pb2.JobSpec) -> dict[str, str]:
    """The options of a train or feed job by their names as keywords; none for other jobs."""
    if spec.WhichOneof("kind") == "train":
        return _options_in(TRAIN, spec.train)
    if spec.WhichOneof("kind") == "feed":
        return _options_in(FEED, spec.feed)
    return {}


def deciding_options(spec: spec_pb2.FeedSpec) -> dict[str, str]:
    """The options of a feed job that decide its batches, by their names as keywords: all but
    those that change no result."""
    return {name: text for name, text in _options_in(FEED, spec).items()
            if not _changes_no_result(FEED.named(name.replace("_", "-")))}


def option_named_by(path: str, space: tuple[str, ...] = ()) -> str:
    """The option, as a keyword, of the field at `path` in an error of the daemon; `path` itself if
    there is none. `space` has the names of a sweep's or a trial's parameters, in order."""
    for i, name in enumerate(space):
        if path.startswith(f"space[{i}]"):
            return f"space {_keyword(name)}"
        if path.startswith(f"parameters[{i}]"):
            return _keyword(name)
    found = SWEEP.at_path(path) or FEED.at_path(path)
    return _keyword(found[0].name) if found is not None else path


def _options_in(table: OptionTable, spec: Message) -> dict[str, str]:
    chosen = table.chosen_in(spec)
    found: dict[str, str] = {}
    for name in table.names:
        named = table.named(name)
        if named is None or named.common:
            continue
        text = _text_in(named, chosen, spec)
        if text is not None:
            found[_keyword(name)] = text
    return found


def _changes_no_result(named: Optional[Named]) -> bool:
    if named is None:
        return False
    one = named.choice if named.choice is not None else named.options[0]
    return one.description.changes_no_result


def _keyword(name: str) -> str:
    return name.replace("-", "_")


def _unknown(table: OptionTable, name: str, field: str) -> Exception:
    near = difflib.get_close_matches(name.replace("_", "-"), table.names, n=1)
    return invalid(field, "is not an option" + (
        f"; did you mean {_keyword(near[0])}?" if near else ""))


def _texts(table: OptionTable, values: Mapping[str, Value]) -> dict[str, str]:
    """The values by the names of flags, and the choices that paths imply."""
    texts: dict[str, str] = {}
    implied: dict[str, tuple[str, str]] = {}
    for given, value in values.items():
        if "." in given:
            found = table.at_path(given)
            named, path = found if found is not None else (None, ())
            implied.update({choice: (alternative, given)
                            for choice, alternative in _choices_of(table, path, given)})
        else:
            named = table.named(given.replace("_", "-"))
        if named is None:
            raise _unknown(table, given, given)
        if named.name in texts:
            raise invalid(given, "is given twice")
        try:
            texts[named.name] = text_of(named, value)
        except TypeError as error:
            raise invalid(given, f"{value!r} is not {value_words(named)}") from error
    for choice, (alternative, given) in implied.items():
        if texts.setdefault(choice, alternative) != alternative:
            raise invalid(given, f"is of {choice} {alternative}, not {texts[choice]}")
    return texts


def _choices_of(table: OptionTable, path: Path, given: str) -> list[tuple[str, str]]:
    """The choices, with their alternatives, that a path as it was given goes through."""
    return [(choice.description.flag, field.name) for field in path for choice in table.choices
            if choice.description.flag and field.name in given.split(".")
            and field.containing_oneof is not None
            and field.containing_oneof.full_name == choice.oneof.full_name]


def _set_all(table: OptionTable, texts: Mapping[str, str], spec: Message) -> None:
    """Makes all choices, given or by default, and sets the given values."""
    for name in table.names:
        named = table.named(name)
        assert named is not None
        if named.choice is None and named.options[0].description.required and name not in texts:
            raise invalid(_keyword(name), f"is required: {named.options[0].description.help}")
    _choose(table, texts, spec)
    chosen = table.chosen_in(spec)
    for name, text in texts.items():
        named = table.named(name)
        assert named is not None
        if named.choice is None:
            _set_first(named, text, chosen, spec, but=set(texts))


def _choose(table: OptionTable, texts: Mapping[str, str], spec: Message) -> None:
    for choice in table.choices:
        name = choice.description.flag
        text = texts.get(name)
        alternative = text if text is not None else default_of(choice.description,
                                                               table.chosen_in(spec))
        if alternative not in choice.names:
            raise invalid(_keyword(name),
                          f'"{alternative}" is not one of {", ".join(choice.names)}')
        getattr(make(choice.path, spec), alternative).SetInParent()


def _set_first(named: Named, text: str, chosen: Chosen, spec: Message,
               but: Optional[set[str]] = None) -> None:
    """Sets the first field that applies and can take the text; for a common name, all fields
    except those whose own names are in `but`."""
    options = [option for option in named.options if option.applies(chosen)]
    if named.common:
        own = [option for option in options if option.description.flag not in (but or set())]
        is_set_now = all([set_from_text(option, text, spec) for option in own])
    else:
        is_set_now = any(set_from_text(option, text, spec) for option in options)
    if options and not is_set_now:
        raise invalid(_keyword(named.name), f'"{text}" is not {value_words(named)}')
    if not options and not _is_ignored(named, chosen):
        oneof = named.alternatives[0].containing_oneof
        assert oneof is not None
        words = " or ".join(one.name for one in named.alternatives)
        raise invalid(_keyword(named.name), f'"{text}" applies with {oneof.name} {words} only')


def _is_ignored(named: Named, chosen: Chosen) -> bool:
    """Whether the chosen alternative (model none) ignores options of other alternatives."""
    oneof = named.alternatives[0].containing_oneof
    assert oneof is not None
    return any(field.name == chosen.get(oneof.full_name)
               and description_of(field).ignores_others
               for field in oneof.fields)


def _text_in(named: Named, chosen: Chosen, spec: Message) -> Optional[str]:
    if named.choice is not None:
        return chosen.get(named.choice.oneof.full_name)
    applying = [option for option in named.options if option.applies(chosen)]
    for option in applying:
        if is_set(option, spec):
            return to_text(option, spec)
    return to_text(applying[0], spec) if applying else None
