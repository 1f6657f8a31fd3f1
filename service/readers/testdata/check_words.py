"""Holds the tables of words that move no memory against the packages: python3 check_words.py .. DIRECTORY...

A DIRECTORY is an unpacked wheel, or one with packages in it (site-packages). Every word of a table has to be declared by
one of the table's packages: as a field of a class, a parameter of a function, an option of an argument parser or a key of
a recipe. A word that no package declares is printed, and so is one that a table has twice; the end is 1 where there is
one. Families of logging (word*) need one declared word that begins so.
"""
import ast, glob, os, re, sys

# where the words of each table are declared
PACKAGES = {
    'launch.torchrunStill': ['torch/distributed/run.py'],
    'launch.accelerateStill': ['accelerate/commands/launch.py'],
    'huggingface.Loggers': ['transformers/training_args.py', 'trl/trainer', 'llamafactory/hparams', 'axolotl/utils/schemas'],
    'huggingface.StillText': ['transformers/training_args.py'],
    'huggingface.ProgramStill': ['trl', 'transformers/trainer.py'],
    'llamafactory.stillText': ['llamafactory/hparams', 'transformers/training_args.py', 'transformers/training_args_seq2seq.py'],
    'axolotl.stillText': ['axolotl/utils/schemas', 'axolotl/integrations', 'transformers/training_args.py'],
    'swift.stillText': ['swift', 'transformers/training_args.py'],
    'litgpt.stillText': ['litgpt/args.py', 'litgpt/finetune', 'litgpt/pretrain.py'],
    'torchtune.stillText': ['torchtune', 'recipes'],
    'torchtitan.stillText': ['torchtitan/config'],
    'megatron.stillText': ['megatron/training/arguments.py'],
    'verl.stillText': ['verl/trainer/config'],
    'olmo.stillText': ['olmo/config.py'],
}
# words of releases before those that are looked at, and of example scripts, which no wheel has
ELSEWHERE = set('''use_auth_token token train_file validation_file test_file validation_split_percentage
    preprocessing_num_workers overwrite_cache keep_linebreaks streaming cache_dir use_fast_tokenizer max_train_samples
    max_eval_samples max_predict_samples dataset_config_name eval_data_path splits chat_template_format conv_template
    lazy_preprocess append_concat_token add_special_tokens dataset_batch_size group_by_length'''.split())


def declared(path):
    """The names that a file declares."""
    if path.endswith(('.yaml', '.yml')):
        return set(re.findall(r'^([A-Za-z_]\w*):', open(path).read(), re.M))
    try:
        tree = ast.parse(open(path).read())
    except (SyntaxError, UnicodeDecodeError):
        return set()
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names.update(a.arg for a in node.args.args + node.args.kwonlyargs)
        if isinstance(node, ast.Call) and getattr(node.func, 'attr', '') == 'add_argument':
            names.update(a.value.lstrip('-').replace('-', '_') for a in node.args if isinstance(a, ast.Constant))
        if isinstance(node, ast.Attribute) and getattr(node.value, 'id', '') in ('cfg', 'args'):
            names.add(node.attr)
    return names


def under(directories, parts):
    names = set()
    for directory in directories:
        for part in parts:
            full = os.path.join(directory, part)
            if os.path.isfile(full):
                names |= declared(full)
            for folder, _, files in os.walk(full):
                for name in files:
                    if name.endswith(('.py', '.yaml')):
                        names |= declared(os.path.join(folder, name))
    return names


# a table is named as its constant is, with the folder of the tool before it
tables, wrong = {}, 0
for path in sorted(glob.glob(os.path.join(sys.argv[1], '*', 'still.go'))):
    folder = os.path.basename(os.path.dirname(path))
    for m in re.finditer(r'^const (\w+) = (?:[\w.]+ \+ )?`([^`]*)`', open(path).read(), re.M):
        tables[f'{folder}.{m[1]}'] = m[2].split()
for table, words in tables.items():
    names = under(sys.argv[2:], PACKAGES[table])
    if not names:
        print(f'{table}: none of its packages is there')
        continue
    for word in words:
        bare = word.rstrip('=').split('.')[-1] if not word.endswith('*') else word.rstrip('*').rstrip('.')
        there = bare in names or word.rstrip('=').split('.')[0] in names
        if word.endswith('*'):
            there = there or any(n.startswith(bare) for n in names)
        if words.count(word) > 1 or not there and bare not in ELSEWHERE:
            print(f'{table}: {word} is {"there twice" if words.count(word) > 1 else "declared nowhere"}')
            wrong = 1
    print(f'{table}: {len(words)} words')
sys.exit(wrong)
