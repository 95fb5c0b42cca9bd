"""WordNet as a graph of several types of nodes and edges, in GraphBolt's raw folder.

    python3 -m hearth.datasets.wordnet --heterogeneous --output DIR [--without-words]

- Nodes: `noun`, `verb`, `adj` and `adv`, one per synset in the order of its data
  file; `word`, one per lemma in the order of its first synset, in lower case and
  without an adjective's marker.
- Edges: a type for each part of speech, pointer and part of speech of at least
  1,000 pointers: `noun:hypernym:noun` leads from a synset to its hypernyms. Where
  WordNet has no pointer back (or fewer), `rev_NAME` holds the reverse edges. Each
  synset is joined with its words by `noun:named_by:word` and `word:names:noun`.
  No duplicates, no self loops; sorted by destination, then source.
- Features: the words of the gloss, hashed into 1,024 columns for nouns, 512 for
  verbs and adjectives, 256 for adverbs (gloss_features.py). Words have none:
  import the folder with `--fill-features mean`, or make it `--without-words`.
- Labels: of nouns alone, their lexicographer file: 0 (noun.Tops) to 25 (noun.time).
- Split: of the nouns, drawn as for the homogeneous graph.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Iterator, NamedTuple, Sequence

import numpy as np

from hearth.datasets.gloss_features import write_features
from hearth.datasets.manifest import ConversionError
from hearth.datasets.table_layouts import GraphBoltFolder, Nodes
from hearth.datasets.wordnet_source import (PARTS_OF_SPEECH, IntArray, Synset, find_nodes,
                                            read_synsets, split_nodes)

FORMAT = "hearth-wordnet-heterogeneous-1"
WIDTHS = {"noun": 1024, "verb": 512, "adj": 512, "adv": 256}
TARGET = "noun"
FIRST_CLASS, NUM_CLASSES = 3, 26
MIN_POINTERS = 1_000

# The counts of WordNet 3.0, with words.
WORDNET_3_0 = {"num_pointer_relations": 35, "num_reverse_relations": 3, "num_noun": 82115,
               "num_verb": 13767, "num_adj": 18156, "num_adv": 3621}

# The names that wninput(5WN) gives to the pointers.
POINTERS = {
    "!": "antonym", "@": "hypernym", "@i": "instance_hypernym", "~": "hyponym",
    "~i": "instance_hyponym", "#m": "member_holonym", "#s": "substance_holonym",
    "#p": "part_holonym", "%m": "member_meronym", "%s": "substance_meronym",
    "%p": "part_meronym", "=": "attribute", "+": "derivation", ";c": "topic_domain",
    "-c": "topic_member", ";r": "region_domain", "-r": "region_member", ";u": "usage_domain",
    "-u": "usage_member", "*": "entailment", ">": "cause", "^": "also_see", "$": "verb_group",
    "&": "similar_to", "<": "participle_of", "\\": "pertainym",
}

# Pointers that WordNet has in both directions, and the name of the way back.
_ONE_WAY = {"@": "~", "@i": "~i", "#m": "%m", "#s": "%s", "#p": "%p",
            ";c": "-c", ";r": "-r", ";u": "-u"}
_BACK = {**_ONE_WAY, **{back: symbol for symbol, back in _ONE_WAY.items()},
         **{symbol: symbol for symbol in "!=+$&"}}

_MARKER = re.compile(r"\((?:a|p|ip)\)$")


class Relation(NamedTuple):
    """The parts of speech that a pointer leads from and to."""

    source: str
    symbol: str
    destination: str

    @property
    def name(self) -> str:
        return f"{self.source}:{POINTERS[self.symbol]}:{self.destination}"

    @property
    def reverse_name(self) -> str:
        return f"{self.destination}:rev_{POINTERS[self.symbol]}:{self.source}"

    def is_back_in(self, relations: set[Relation]) -> bool:
        """Whether one of `relations` has the same edges, reversed."""
        back = _BACK.get(self.symbol)
        return back is not None and Relation(self.destination, back, self.source) in relations


class Heterograph(NamedTuple):
    """Edges (2, E) by the name of their type; glosses by part of speech."""

    num_words: int
    edges: dict[str, IntArray]
    num_pointer_relations: int
    glosses: dict[str, list[str]]
    labels: IntArray


def read_heterograph(paths: Sequence[Path], min_pointers: int, with_words: bool) -> Heterograph:
    """Reads all data files, given in the order of the parts of speech."""
    synsets = {kind: list(read_synsets(path, part))
               for part, (kind, path) in enumerate(zip(PARTS_OF_SPEECH, paths))}
    pointers = _pointer_edges(synsets)
    kept = {relation for relation, edges in pointers.items() if edges.shape[1] >= min_pointers}
    edges = {}
    for relation in sorted(kept, key=lambda one: one.name):
        edges[relation.name] = _unique(pointers[relation])
        if not relation.is_back_in(kept):
            edges[relation.reverse_name] = _unique(pointers[relation][::-1])
    words: dict[str, int] = {}
    if with_words:
        for kind, members in synsets.items():
            named_by = _unique(_word_edges(members, words))
            edges[f"{kind}:named_by:word"] = named_by
            edges[f"word:names:{kind}"] = _unique(named_by[::-1])
    glosses = {kind: [synset.gloss for synset in members] for kind, members in synsets.items()}
    return Heterograph(len(words), edges, len(kept), glosses, _labels(synsets[TARGET]))


def write_heterograph(folder: Path, graph: Heterograph, seed: int) -> dict[str, int]:
    """Writes every array and metadata.yaml; returns the counts that the manifest records."""
    layout = GraphBoltFolder(folder)
    nodes = {}
    for kind, glosses in graph.glosses.items():
        if glosses:
            write_features(layout.features(kind), glosses, WIDTHS[kind])
        nodes[kind] = Nodes(len(glosses), WIDTHS[kind] if glosses else 0, None, None)
    nodes[TARGET] = nodes[TARGET]._replace(labels=graph.labels,
                                           split=split_nodes(len(graph.labels), seed))
    if graph.num_words:
        nodes["word"] = Nodes(graph.num_words, 0, None, None)
    for relation, edges in graph.edges.items():
        np.save(layout.edges(relation), edges)
    layout.finish(nodes, list(graph.edges))
    return counts_of(graph)


def counts_of(graph: Heterograph) -> dict[str, int]:
    counts = {f"num_{kind}": len(glosses) for kind, glosses in graph.glosses.items()}
    counts["num_word"] = graph.num_words
    counts["num_pointer_relations"] = graph.num_pointer_relations
    counts["num_reverse_relations"] = sum(":rev_" in name for name in graph.edges)
    counts["num_edge_types"] = len(graph.edges)
    counts["num_edges"] = sum(edges.shape[1] for edges in graph.edges.values())
    return counts


def _pointer_edges(synsets: dict[str, list[Synset]]) -> dict[Relation, IntArray]:
    """Pairs of nodes, numbered within their parts of speech, for each pointer in its order,
    except pointers within a synset, which would be self loops."""
    everyone = [synset for members in synsets.values() for synset in members]
    firsts = np.cumsum([0, *(len(members) for members in synsets.values())])
    targets = find_nodes(np.array([synset.key for synset in everyone], np.int64),
                         np.array([pointer.key for synset in everyone
                                   for pointer in synset.pointers], np.int64))
    parts = np.searchsorted(firsts, targets, side="right") - 1
    pairs: dict[Relation, list[tuple[int, int]]] = {}
    ends = zip(_pointers(synsets), parts.tolist(), (targets - firsts[parts]).tolist())
    for (source_part, source, symbol), part, target in ends:
        if (source_part, source) == (part, target):
            continue
        if symbol not in POINTERS:
            raise ConversionError(f"a pointer {symbol!r} is none of WordNet's")
        relation = Relation(PARTS_OF_SPEECH[source_part], symbol, PARTS_OF_SPEECH[part])
        pairs.setdefault(relation, []).append((source, target))
    return {relation: np.array(some, np.int64).T for relation, some in pairs.items()}


def _pointers(synsets: dict[str, list[Synset]]) -> Iterator[tuple[int, int, str]]:
    for part, members in enumerate(synsets.values()):
        for number, synset in enumerate(members):
            for pointer in synset.pointers:
                yield part, number, pointer.symbol


def _word_edges(members: Sequence[Synset], words: dict[str, int]) -> IntArray:
    """Pairs of a synset and each of its words; new words are numbered in `words`."""
    pairs = [(number, words.setdefault(_MARKER.sub("", word).lower(), len(words)))
             for number, synset in enumerate(members) for word in synset.words]
    return np.array(pairs, np.int64).reshape(-1, 2).T


def _unique(edges: IntArray) -> IntArray:
    """Each pair once, by destination and then source."""
    pairs: IntArray = np.unique(edges[::-1].T, axis=0).T[::-1]
    return np.ascontiguousarray(pairs)


def _labels(nouns: Sequence[Synset]) -> IntArray:
    labels = np.array([synset.label for synset in nouns], np.int64) - FIRST_CLASS
    wrong = Counter((labels[(labels < 0) | (labels >= NUM_CLASSES)] + FIRST_CLASS).tolist())
    if wrong:
        raise ConversionError(f"lexicographer files of nouns are {FIRST_CLASS} to "
                              f"{FIRST_CLASS + NUM_CLASSES - 1}, not {min(wrong)}")
    return labels
