"""Scores vramplan diagnose on messages with known causes: python3 score_messages.py VRAMPLAN MESSAGES.jsonl [-t] [-v]

A line of MESSAGES is {"id", "text", "cause": {"cls": CLASS}, "document": JOB or null, "must_say": [...], "must_not_say": [...]}.
-t leaves the jobs out, -v prints those that are right too.
"""
import json
import subprocess
import sys
import tempfile


def diagnose(binary, case, text_only):
    args = [binary, 'diagnose', '-o', 'json']
    with tempfile.NamedTemporaryFile('w', suffix='.json') as job:
        if case.get('document') and not text_only:
            json.dump(case['document'], job)
            job.flush()
            args.append(job.name)
        return subprocess.run(args, input=case['text'], capture_output=True, text=True)


def main():
    binary, messages, *flags = sys.argv[1:]
    cases = [json.loads(line) for line in open(messages)]
    right = 0
    for case in cases:
        answer = diagnose(binary, case, '-t' in flags)
        try:
            said = json.loads(answer.stdout)['class']
        except (ValueError, KeyError):
            said = 'nothing: ' + (answer.stdout + answer.stderr)[:200]
        low = answer.stdout.lower()
        missing = [word for word in case.get('must_say', []) if word.lower() not in low]
        wrong = [word for word in case.get('must_not_say', []) if word.lower() in low]
        right += said == case['cause']['cls']
        if said != case['cause']['cls'] or '-v' in flags:
            print(case['id'], 'is', case['cause']['cls'], 'and is called', said, 'not said', missing, 'said', wrong)
    print(f'{right} of {len(cases)} classes right')


if __name__ == '__main__':
    main()
