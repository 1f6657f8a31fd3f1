#!/usr/bin/env python3
"""Which heads the models of some releases of transformers have, read off their sources; nothing is imported.

    python oracle/classes.py 4.57.6=…/transformers … 5.23.0=…/transformers > estimator/release/classes.txt

Releases come oldest first. A line is a head, as the names of classes end; the first release read that has it, the last release read before
that, which has not, and the first behind the last that has it ("-" where there is none); and the model types for which AutoModelFor… then
knows a class.
"""

import ast
import collections
import os
import sys

HEADS = dict(
    ForMaskedLM="MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    ForMultipleChoice="MODEL_FOR_MULTIPLE_CHOICE_MAPPING_NAMES",
    ForQuestionAnswering="MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES",
    ForSequenceClassification="MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
    ForTokenClassification="MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES",
)


def types(node):
    """The keys of OrderedDict([(key, value), …])."""
    pairs = (e for e in ast.walk(node) if isinstance(e, ast.Tuple) and len(e.elts) == 2)
    return {e.elts[0].value for e in pairs if isinstance(e.elts[0], ast.Constant)}


def read(folder):
    """The model types of each head in one release."""
    with open(os.path.join(folder, "models/auto/modeling_auto.py")) as f:
        tree = ast.parse(f.read())
    found = {n.targets[0].id: types(n.value) for n in tree.body if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)}
    return {head: found[mapping] for head, mapping in HEADS.items()}


def main():
    releases = [argument.split("=", 1) for argument in sys.argv[1:]]
    read_off = [(release, read(folder)) for release, folder in releases]
    names = [release for release, _ in read_off]
    lines = collections.defaultdict(list)
    for head in HEADS:
        for kind in sorted(set().union(*(found[head] for _, found in read_off))):
            has = [i for i, (_, found) in enumerate(read_off) if kind in found[head]]
            before = names[has[0] - 1] if has[0] else "-"
            after = names[has[-1] + 1] if has[-1] + 1 < len(names) else "-"
            lines[head, names[has[0]], before, after].append(kind)
    for key, kinds in sorted(lines.items()):
        print(*key, *kinds)


if __name__ == "__main__":
    main()
