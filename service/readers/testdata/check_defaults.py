"""Holds the table of defaults against the packages: python3 check_defaults.py DIRECTORY < table.json

DIRECTORY has unpacked wheels in folders named tool-release; the table is what `vramplan read --explain-defaults all -o json`
prints. Every row is looked up in every release for which it is the newest one; a row that no folder tests is said so.
"""
import ast, glob, json, os, sys


def number(release):
    return [int(part) for part in release.split('.')] if release else [0]


def handed(function, key):
    """What a function takes where its keyword arguments have no such key: kwargs.get(key, x), and what replaces a None."""
    found = '-'
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ('kwargs.get', 'kwargs.pop') and len(node.args):
            if ast.unparse(node.args[0]) == repr(key):
                found = ast.unparse(node.args[1]) if len(node.args) > 1 else 'None'
    for node in function.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == f'{key} is None' and isinstance(node.body[0], ast.Assign):
            if found == 'None' and ast.unparse(node.body[0].targets[0]) == key:
                found = ast.unparse(node.body[0].value)
    return found


def declared(path, owner, key):
    """The default of a field of a class, or of a parameter of a function; '-' where there is none."""
    for node in ast.walk(ast.parse(open(path).read())):
        if isinstance(node, ast.FunctionDef) and node.name == owner:
            names = node.args.args[-len(node.args.defaults):] if node.args.defaults else []
            for name, value in zip(names, node.args.defaults):
                if name.arg == key:
                    return ast.unparse(value)
            return handed(node, key)
        if isinstance(node, ast.ClassDef) and node.name == owner:
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and getattr(field.target, 'id', '') == key and field.value is not None:
                    if isinstance(field.value, ast.Call):
                        given = {k.arg: k.value for k in field.value.keywords}
                        if 'default' in given:
                            return ast.unparse(given['default'])
                        if field.value.args:
                            return ast.unparse(field.value.args[0])
                    return ast.unparse(field.value)
    return '-'


LIMITS = ('max_prompt_length', 'max_completion_length', 'num_generations', 'dtype', 'torch_dtype')
rows, wrong, tested = json.load(sys.stdin), 0, set()
for folder in sorted(glob.glob(os.path.join(sys.argv[1], '*-*'))):
    tool, _, release = os.path.basename(folder).rpartition('-')
    newest = {}
    for i, row in enumerate(rows):
        if row['tool'] == tool and number(row.get('from', '')) <= number(release):
            # limits of trl's other trainers, and types of models, stand in a class each
            newest[row['key'], row['class'] if row['key'] in LIMITS else ''] = i
    for (key, _), i in newest.items():
        row, path = rows[i], os.path.join(folder, rows[i]['file'])
        if not os.path.exists(path):
            if row.get('from') or not any(r['key'] == key and r['tool'] == tool and r.get('from') for r in rows):
                wrong += 1
                print(f'{tool} {release} has no {row["file"]}')
            continue
        found = declared(path, row['class'], key)
        tested.add(i)
        if found != row['value'] and not (found == '-' and row['key'] in ('max_seq_length', 'torch_dtype')):
            wrong += 1
            print(f'{tool} {release} {key}: {found}, and the table has {row["value"]}')
for i, row in enumerate(rows):
    if i not in tested:
        print(f'not tested: {row["tool"]} {row.get("from", "")} {row["key"]}')
print(f'{len(tested)} of {len(rows)} rows tested, {wrong} wrong')
sys.exit(1 if wrong else 0)
