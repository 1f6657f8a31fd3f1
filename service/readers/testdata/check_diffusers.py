"""Holds what the reader of diffusers' scripts takes for granted against the scripts: python3 check_diffusers.py diffusers.go CLONE

CLONE is a git repository of diffusers with its tags. Every default of the table is looked up in the script's parse_args in
every release that has it, and every word that moves no memory is looked for in the scripts. What differs is printed.
"""
import ast, re, subprocess, sys


def git(*words):
    done = subprocess.run(['git', '-C', sys.argv[2], *words], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def declared(text):
    """The arguments of a script, with their defaults as they are written."""
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and getattr(node.func, 'attr', '') == 'add_argument':
            given = {k.arg: ast.unparse(k.value) for k in node.keywords}
            for name in node.args:
                found[name.value.lstrip('-')] = given.get('default', 'False' if 'action' in given else None)
    return found


source = open(sys.argv[1]).read()
table = {m[1]: {'train_batch_size': m[2], 'resolution': m[3], 'rank': m[4]}
         for m in re.finditer(r'"(train_\w+\.py)": \{(\d+), (\d+), (\d+)\}', source)}
for m in re.finditer(r'"(train_\w+\.py)": (\d+)[,}]', source):
    table[m[1]]['max_sequence_length'] = m[2]
still = set(re.search(r'const stillText = `([^`]*)`', source)[1].replace('=', '').split())
tags = sorted((t for t in git('tag').split() if re.fullmatch(r'v0\.(1[4-9]|[2-9]\d)\.0', t)),
              key=lambda t: int(t.split('.')[1]))
words, wrong, held = set(), 0, 0
for script, row in table.items():
    folder = 'dreambooth' if 'dreambooth' in script else 'controlnet' if 'controlnet' in script else 'text_to_image'
    for tag in tags:
        text = git('show', f'{tag}:examples/{folder}/{script}')
        if text is None:
            continue
        found = declared(text)
        words |= set(found)
        for key, want in {**row, 'gradient_accumulation_steps': '1', 'gradient_checkpointing': 'False',
                          'mixed_precision': 'None', 'use_8bit_adam': 'False', 'use_ema': 'False', 'lora_dropout': '0.0'}.items():
            if key in found:
                held += 1
                if found[key] != want:
                    wrong += 1
                    print(f'{script} {tag}: {key} is {found[key]}, and {want} in the table')
for word in sorted(still - words):
    wrong += 1
    print(f'{word}: no script has it')
print(f'{held} defaults of {len(table)} scripts in {len(tags)} releases, {len(still)} words: {wrong} differ')
