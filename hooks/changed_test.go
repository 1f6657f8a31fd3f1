package hooks_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// repository makes the workplace a repository in which jobs/job.sh fits, and a change of it that does not.
func (w *workplace) repository(t *testing.T) (base string) {
	t.Helper()
	git := func(args ...string) string {
		out, code := w.run(t, nil, "git", append([]string{"-c", "user.name=ada", "-c", "user.email=ada@example.com"},
			args...)...)
		if code != 0 {
			t.Fatalf("git %v: %s", args, out)
		}
		return strings.TrimSpace(out)
	}
	if err := os.RemoveAll(filepath.Join(w.dir, "jobs")); err != nil {
		t.Fatal(err)
	}
	w.put(t, "jobs/job.sh", fits)
	w.put(t, "README.md", "Trainings.\n")
	w.put(t, ".gitignore", "/*\n!/jobs/\n!/README.md\n")
	git("init", "--quiet")
	git("add", "-A")
	git("commit", "--quiet", "--message", "A job that fits")
	base = git("rev-parse", "HEAD")
	w.put(t, "jobs/job.sh", tooLarge)
	w.put(t, "README.md", "More trainings.\n")
	git("commit", "--quiet", "--all", "--message", "A job that does not")
	return base
}

// shim is a program in the PATH that writes down what it is asked, and answers.
func (w *workplace) shim(t *testing.T, name, answer string) (asked func() string) {
	t.Helper()
	record := filepath.Join(w.dir, name+".asked")
	w.put(t, name, "#!/bin/sh\nprintf '%s\\n' \"$*\" >> '"+record+"'\nfor a; do case $a in body=@*) cat \"${a#body=@}\" >> '"+
		record+"' ;; body@*) cat \"${a#body@}\" >> '"+record+"' ;; esac; done\n"+answer+"\n")
	return func() string {
		text, err := os.ReadFile(record)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err := os.RemoveAll(record); err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

// told is in every answer about the change of a repository.
var told = []string{"### jobs/job.sh\n", "does not fit: nanogpt/train_gpt2, micro-batch 16, on rtx-4070",
	"| GiB | before | now | now less before |", "micro_batch 4 → 16: +"}

// tells holds a text against told.
func tells(t *testing.T, where, text string) {
	t.Helper()
	for _, part := range told {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%s", where, part, text)
		}
	}
	if strings.Contains(text, "README.md") {
		t.Errorf("%s speaks of a file that describes no job:\n%s", where, text)
	}
}

// The step of the action, as a runner would run it: a comment is written, and changed by the next push.
func TestGitHubAction(t *testing.T) {
	w := newWorkplace(t)
	base := w.repository(t)
	text, err := os.ReadFile("github/action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var action struct {
		Inputs map[string]struct{ Default string }
		Runs   struct {
			Steps []struct {
				ID, Run string
				Env     map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &action); err != nil {
		t.Fatal(err)
	}
	steps := action.Runs.Steps
	step := steps[len(steps)-1]
	for name, value := range step.Env {
		given, ok := strings.CutPrefix(value, "${{ inputs.")
		if _, declared := action.Inputs[strings.TrimSuffix(given, " }}")]; ok && !declared {
			t.Errorf("%s is made of an input that the action does not have: %s", name, value)
		}
	}
	here, err := filepath.Abs("github")
	if err != nil {
		t.Fatal(err)
	}
	summary := filepath.Join(w.dir, "summary.md")
	run := func(env ...string) (string, int) {
		return w.run(t, append([]string{"GITHUB_STEP_SUMMARY=" + summary, "GITHUB_ACTION_PATH=" + here, "RUNNER_TEMP=" +
			w.dir, "GITHUB_REPOSITORY=ada/trainings", "BASE=" + base, "FILES=", "GPU=", "COMMENT=true", "NUMBER=7"}, env...),
			"bash", "--noprofile", "--norc", "-e", "-o", "pipefail", w.put(t, "step.sh", step.Run))
	}

	asked := w.shim(t, "gh", "exit 0")
	if out, code := run(); code != 1 || out != "::error::vramplan changed ended with 1; the summary says why\n" {
		t.Errorf("with a job that does not fit: %d\n%s", code, out)
	}
	report, err := os.ReadFile(summary)
	if err != nil {
		t.Fatal(err)
	}
	tells(t, "the summary", string(report))
	comment := asked()
	tells(t, "the comment", comment)
	if !strings.Contains(comment, "api --method POST repos/ada/trainings/issues/7/comments") {
		t.Errorf("no comment was written:\n%s", comment)
	}

	asked = w.shim(t, "gh", `case "$*" in *--paginate*) echo 4711; echo 4712 ;; esac`)
	run()
	if again := asked(); !strings.Contains(again, "api --method PATCH repos/ada/trainings/issues/comments/4711 ") ||
		strings.Contains(again, "POST") {
		t.Errorf("the comment of the last push is not the one that is changed:\n%s", again)
	}

	// Who may not comment has the verdict all the same.
	asked = w.shim(t, "gh", "exit 1")
	if out, code := run("FILES=README.md\njobs/job.sh\n"); code != 1 || !strings.Contains(out, "::warning::") {
		t.Errorf("without the permission to comment: %d\n%s", code, out)
	}
	asked()
	if out, code := run("BASE=HEAD", "COMMENT=false"); code != 0 || out != "" || asked() != "" {
		t.Errorf("without a change: %d\n%s", code, out)
	}
}

// The script of the template, as GitLab's runner would run it.
func TestGitLabTemplate(t *testing.T) {
	w := newWorkplace(t)
	base := w.repository(t)
	text, err := os.ReadFile("gitlab/vramplan.yml")
	if err != nil {
		t.Fatal(err)
	}
	var template map[string]struct{ Script []string }
	if err := yaml.Unmarshal(text, &template); err != nil {
		t.Fatal(err)
	}
	script := w.put(t, "step.sh", "set -eo pipefail\n"+strings.Join(template["vramplan"].Script, "\n")+"\n")
	asked := w.shim(t, "curl", "exit 0")
	env := []string{"CI_MERGE_REQUEST_DIFF_BASE_SHA=" + base, "CI_API_V4_URL=http://gitlab.example/api/v4",
		"CI_PROJECT_ID=5", "CI_MERGE_REQUEST_IID=7", "VRAMPLAN_VERSION=latest"}
	out, code := w.run(t, env, "bash", script)
	if code != 1 || asked() != "" {
		t.Errorf("with a job that does not fit, and no token: %d", code)
	}
	tells(t, "what is printed", out)
	w.run(t, append(env, "VRAMPLAN_TOKEN=t"), "bash", script)
	note := asked()
	tells(t, "the note", note)
	if !strings.Contains(note, "http://gitlab.example/api/v4/projects/5/merge_requests/7/notes") {
		t.Errorf("the note goes elsewhere:\n%s", note)
	}
}

// The hook of pre-commit, which hands on the files of the commit.
func TestPreCommitHook(t *testing.T) {
	w := newWorkplace(t)
	w.repository(t)
	text, err := os.ReadFile("../.pre-commit-hooks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var hooks []struct{ ID, Entry, Language string }
	if err := yaml.Unmarshal(text, &hooks); err != nil || len(hooks) != 1 || hooks[0].Language != "golang" {
		t.Fatalf("%v: %+v", err, hooks)
	}
	command := []string{"bash", "-c", hooks[0].Entry + " jobs/job.sh"}
	w.put(t, "jobs/job.sh", strings.Replace(tooLarge, "micro_batch=16", "micro_batch=32", 1))
	if out, code := w.run(t, nil, command[0], command[1:]...); code != 1 || !strings.Contains(out, "micro_batch 16 → 32: +") {
		t.Errorf("with a job that does not fit: %d\n%s", code, out)
	}
	w.put(t, "jobs/job.sh", fits)
	if out, code := w.run(t, nil, command[0], command[1:]...); code != 0 || !strings.Contains(out, "micro_batch 16 → 4: -") {
		t.Errorf("with one that fits: %d\n%s", code, out)
	}
}
