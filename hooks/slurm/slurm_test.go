// Package slurm_test submits jobs to a real Slurm with the hooks of this directory.
package slurm_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vramplan/vramplan/service/decision"
)

// The jobs: GPT-2 124M needs 18.6 GiB with micro-batches of 16 on the 11.7 GiB of the
// node's cards, 11.4 GiB with 8, and 7.1 GiB with 4.
const (
	header   = "#!/bin/sh\n#SBATCH --gres=gpu:rtx4070:1 --output=/dev/null\n"
	gpt2     = "#VRAMPLAN model=nanogpt/train_gpt2 gradient_accumulation=32 optimizer.implementation=fused "
	tooLarge = header + gpt2 + "micro_batch=16\ntrue\n"
	fits     = header + gpt2 + "micro_batch=4\ntouch ran\n"
	tight    = header + gpt2 + "micro_batch=8 reserve_bytes=200000000\ntrue\n"
	plain    = header + "true\n"
	unknown  = header + "#VRAMPLAN model=nobody-knows micro_batch=8\ntrue\n"
)

// launch does not fit on the card, and every word of it is understood.
const launch = "python run_clm.py --model_name_or_path gpt2 --do_train --per_device_train_batch_size 64 --bf16"

const enforce = "s.mode = 'enforce'"

func TestSlurm(t *testing.T) {
	c := start(t)
	for name, text := range map[string]string{"too_large.sh": tooLarge, "fits.sh": fits, "tight.sh": tight,
		"plain.sh": plain, "unknown.sh": unknown, "launch.sh": header + launch + "\n"} {
		put(t, c.path(name), text)
	}
	t.Run("verdicts", func(t *testing.T) { verdicts(t, c) })
	t.Run("a job that fits runs", func(t *testing.T) { runs(t, c) })
	t.Run("faults", func(t *testing.T) { faults(t, c) })
	t.Run("decisions", func(t *testing.T) { decisions(t, c) })
	t.Run("the controller", func(t *testing.T) { controller(t, c) })
}

// verdicts submits jobs under settings and looks at what the user sees.
func verdicts(t *testing.T, c *cluster) {
	for _, tt := range []struct {
		name, settings, env string
		args                []string
		refused             bool
		says                []string // nothing of vramplan's if empty
	}{
		{name: "does not fit, enforced", settings: enforce, args: []string{"too_large.sh"}, refused: true,
			says: []string{"does not fit: nanogpt/train_gpt2, micro-batch 16", "18.62 GiB",
				"11.71 GiB usable", "batch_size = 8, gradient_accumulation_steps = 64",
				"sbatch --comment='vramplan:override=REASON'"}},
		{name: "does not fit, warned", settings: "s.mode = 'warn'", args: []string{"too_large.sh"},
			says: []string{"does not fit: ", "the job is submitted all the same"}},
		{name: "does not fit, audited", settings: "s.mode = 'audit'", args: []string{"too_large.sh"}},
		{name: "does not fit, off", settings: "s.mode = 'off'", args: []string{"too_large.sh"}},
		{name: "a script's own launch does not fit", settings: enforce, args: []string{"launch.sh"}, refused: true,
			says: []string{"does not fit: openai-community/gpt2, micro-batch 64"}},
		{name: "fits", settings: enforce, args: []string{"fits.sh"}},
		{name: "tight", settings: enforce, args: []string{"tight.sh"},
			says: []string{"vramplan check: tight: the job probably fits on rtx-4070"}},
		{name: "no training", settings: enforce, args: []string{"plain.sh"}},
		{name: "an unknown model", settings: enforce, args: []string{"unknown.sh"}, says: []string{"vramplan check: "}},
		{name: "two GPUs, of which the job does not speak", settings: enforce,
			args: []string{"--gres=gpu:rtx4070:2", "too_large.sh"}, says: []string{"but asks for 2 GPUs"}},
		{name: "a reason", settings: enforce, args: []string{"--comment=vramplan:override=it's measured",
			"too_large.sh"}, says: []string{"let through (it's measured)"}},
		{name: "a reason in the environment", settings: enforce, env: "VRAMPLAN_OVERRIDE=measured",
			args: []string{"too_large.sh"}, says: []string{"let through (measured)"}},
		{name: "a partition of its own", settings: enforce + " s.partitions = { free = 'audit' }",
			args: []string{"-p", "free", "too_large.sh"}},
		{name: "the weakest of two partitions", settings: enforce + " s.partitions = { free = 'warn' }",
			args: []string{"-p", "gpu,free", "too_large.sh"}, says: []string{"does not fit: "}},
		{name: "an exempt user", settings: enforce + " s.exempt_users = { tester = true }", env: "USER=tester",
			args: []string{"too_large.sh"}},
		{name: "a card from a site's file", settings: enforce + " s.site = '" + c.path("site.json") + "'",
			args: []string{"--gres=gpu:1", "-C", "vram12g", "too_large.sh"}, refused: true,
			says: []string{"does not fit: "}},
		{name: "a wrapped command", settings: enforce,
			env:  `VRAMPLAN_JOB={"model": {"preset": "gpt2"}, "training": {"micro_batch": 64}}`,
			args: []string{"--gres=gpu:rtx4070:1", "--wrap", "echo 'it is'"}, refused: true,
			says: []string{"does not fit: openai-community/gpt2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			put(t, c.path("site.json"), `{"gpus": {"vram12g": ["rtx-4070"]}}`)
			c.settings(t, tt.settings)
			out, accepted := c.submit(t, c.path("slurm.conf"), tt.env, append([]string{"--hold"}, tt.args...)...)
			if accepted == tt.refused {
				t.Errorf("accepted: %v, want %v; sbatch says:\n%s", accepted, !tt.refused, out)
			}
			for _, part := range tt.says {
				if !strings.Contains(out, part) {
					t.Errorf("sbatch does not say %q, but\n%s", part, out)
				}
			}
			if len(tt.says) == 0 && strings.Contains(out, "lua") {
				t.Errorf("sbatch says\n%s", out)
			}
		})
	}
	t.Run("srun", func(t *testing.T) {
		c.settings(t, enforce)
		out, err := c.run(`VRAMPLAN_JOB={"model": {"preset": "gpt2"}, "training": {"micro_batch": 64}}`, "srun",
			"--gres=gpu:rtx4070:1", "true")
		if err == nil || !strings.Contains(out, "does not fit: ") {
			t.Errorf("srun ends with %v and says\n%s", err, out)
		}
		if out, err := c.run(`VRAMPLAN_JOB={"model": {"preset": "gpt2"}, "training": {"micro_batch": 1}}`, "srun",
			"--gres=gpu:rtx4070:1", "true"); err != nil {
			t.Errorf("srun ends with %v and says\n%s", err, out)
		}
	})
}

func runs(t *testing.T, c *cluster) {
	c.settings(t, enforce)
	if out, accepted := c.submit(t, c.path("slurm.conf"), "", "--wait", "fits.sh"); !accepted {
		t.Fatalf("sbatch says\n%s", out)
	}
	if _, err := os.Stat(c.path("ran")); err != nil {
		t.Error(err)
	}
}

// faults breaks vramplan in every way that there is, in every mode: the job is submitted in
// every one, although it does not fit.
func faults(t *testing.T, c *cluster) {
	program := func(name, text string) string {
		put(t, c.path(name), text)
		return "s.command = '" + c.path(name) + "' "
	}
	strange := func(name, text string) string {
		put(t, c.path(name+".sh"), header+text+"\n")
		return name + ".sh"
	}
	for _, fault := range []struct{ name, settings, script string }{
		{"missing", "s.command = '/nowhere/vramplan' ", "too_large.sh"},
		{"not a program", program("text", "\x7fELF"), "too_large.sh"},
		{"hanging", program("hang", "#!/bin/sh\nsleep 60\n") + "s.timeout_seconds = 0.3 ", "too_large.sh"},
		{"hanging behind an answer", program("late", "#!/bin/sh\necho 'does not fit: x'\nsleep 60 &\nwait\n") +
			"s.timeout_seconds = 0.3 ", "too_large.sh"},
		{"crashing", program("crash", "#!/bin/sh\nkill -SEGV $$\n"), "too_large.sh"},
		{"panicking", program("panic", "#!/bin/sh\necho 'vramplan: internal error: x'\nexit 3\n"), "too_large.sh"},
		{"failing without a word", program("one", "#!/bin/sh\nexit 1\n"), "too_large.sh"},
		{"failing with nonsense", program("nonsense", "#!/bin/sh\nhead -c 5000 /dev/urandom\nexit 1\n"),
			"too_large.sh"},
		{"succeeding with nonsense", program("zero", "#!/bin/sh\necho '{}'\n"), "too_large.sh"},
		{"printing without end", program("endless", "#!/bin/sh\nyes 'does not fit: x'\n") + "s.timeout_seconds = 0.3 ",
			"too_large.sh"},
		{"a usage error", program("usage", "#!/bin/sh\necho 'vramplan: unknown flag --hook'\nexit 2\n"),
			"too_large.sh"},
		{"a service that is gone", "s.server = 'http://127.0.0.1:1' ", "fits.sh"},
		{"a service that does not answer", "s.server = '" + silent(t) + "' ", "fits.sh"},
		{"a record that cannot be written", "s.decisions = '/nowhere/decisions' ", "fits.sh"},
		{"a site's file that is not there", "s.site = '/nowhere/site.json' ", "too_large.sh"},
		{"settings with a syntax error", "this is not Lua", "too_large.sh"},
		{"settings of another kind", "s = 5", "too_large.sh"},
		{"settings that fail", "error('x')", "too_large.sh"},
		{"settings with wrong types", "s.command = {} s.partitions = 7 ", "too_large.sh"},
		{"a word that it does not know: adapters", "", strange("adapter", launch+" --lora_rank 8")},
		{"a word that it does not know: quantisation", "", strange("quantisation", launch+" --bits 4")},
		{"a word that it does not know: sharding", "", strange("sharding", "accelerate launch --use_fsdp "+
			launch[len("python "):])},
		{"a word that it does not know: offload", "", strange("offload", launch+" --cpu_offload")},
		{"a word that it does not know: precision", "", strange("precision", launch+" --pure_bf16")},
		{"a word that it does not know: the model", "", strange("model", launch+" --config_overrides n_layer=2")},
		{"a word that it does not know: an option", "", strange("option", launch+" --my_flag")},
		{"a word that it does not know: a variable", "", strange("variable", launch+" $EXTRA")},
		{"a word that it does not know: the environment", "", strange("environment", "export ACCELERATE_USE_FSDP=1\n"+
			launch)},
		{"a branch that may not be taken", "", strange("branch", "if [ -f big ]; then "+launch+"; fi")},
		{"another attempt", "", strange("attempt", launch+" || python small.py")},
		{"a file that the script writes", "", strange("rewritten", "sed -i s/2/1/ args.json\npython "+
			"run_clm.py args.json")},
	} {
		for _, mode := range []string{"audit", "warn", "enforce"} {
			t.Run(fault.name+"/"+mode, func(t *testing.T) {
				c.settings(t, "s.mode = '"+mode+"' "+fault.settings)
				out, accepted := c.submit(t, c.path("slurm.conf"), "", "--hold", fault.script)
				if !accepted {
					t.Errorf("refused; sbatch says\n%s", out)
				}
				if lines := strings.Count(out, "\n"); mode == "audit" && lines > 0 || lines > 3 {
					t.Errorf("sbatch says more than it should:\n%s", out)
				}
			})
		}
	}
	t.Run("a service that is gone does not open the door", func(t *testing.T) {
		c.settings(t, enforce+" s.server = 'http://127.0.0.1:1' ")
		if out, accepted := c.submit(t, c.path("slurm.conf"), "", "--hold", "too_large.sh"); accepted ||
			!strings.Contains(out, "does not fit: ") {
			t.Errorf("accepted: %v; sbatch says\n%s", accepted, out)
		}
	})
}

// decisions reads the record of what the other tests did.
func decisions(t *testing.T, c *cluster) {
	check(t, os.Remove(c.path("decisions.ndjson")))
	for _, more := range []string{enforce, "s.mode = 'audit'", enforce + " s.command = '/nowhere/vramplan'"} {
		c.settings(t, more)
		c.submit(t, c.path("slurm.conf"), "", "--hold", "too_large.sh")
	}
	c.settings(t, enforce)
	c.submit(t, c.path("slurm.conf"), "", "--hold", "--comment=vramplan:override=why", "too_large.sh")
	text, err := os.ReadFile(c.path("decisions.ndjson"))
	check(t, err)
	var got []string
	for line := range strings.Lines(string(text)) {
		var r decision.Record
		check(t, json.Unmarshal([]byte(line), &r))
		if r.Hook != "slurm" || r.Time.IsZero() || (r.Verdict == "does_not_fit") != (r.JobDigest != "" && r.ID != "" &&
			r.Versions != nil) {
			t.Errorf("record %s", line)
		}
		got = append(got, string(r.Mode)+" "+r.Action+" "+r.Verdict+" "+r.Override+r.Reason)
	}
	want := "enforce deny does_not_fit |audit allow does_not_fit |enforce allow none the program is not there|enforce " +
		"allow does_not_fit why"
	if all := strings.Join(got, "|"); all != want {
		t.Errorf("decisions\n%s\nwant\n%s", all, want)
	}
}

// controller submits around the client's filter, on a partition that wants a verdict.
func controller(t *testing.T, c *cluster) {
	const wants = " s.record_verdict = true s.require_verdict = { gpu = true }"
	for _, tt := range []struct {
		name, settings string
		direct         bool
		args           []string
		refused        bool
		says           string
	}{
		{name: "checked by the client", settings: enforce + wants, args: []string{"fits.sh"}},
		{name: "not understood by the client", settings: enforce + wants, args: []string{"plain.sh"}},
		{name: "the client's program is gone", settings: enforce + wants + " s.command = '/nowhere'",
			args: []string{"too_large.sh"}, says: "the program is not there"},
		{name: "around the client", settings: enforce + wants, direct: true, args: []string{"fits.sh"}, refused: true,
			says: "vramplan: this job was not checked"},
		{name: "around the client, warned", settings: "s.mode = 'warn'" + wants, direct: true,
			args: []string{"fits.sh"}, says: "vramplan: this job was not checked"},
		{name: "around the client, audited", settings: "s.mode = 'audit'" + wants, direct: true,
			args: []string{"fits.sh"}},
		{name: "around the client, with a reason", settings: enforce + wants, direct: true,
			args: []string{"--comment=vramplan:override=why", "fits.sh"}},
		{name: "around the client, where none is wanted", settings: enforce, direct: true, args: []string{"fits.sh"}},
		{name: "around the client, without a GPU", settings: enforce + wants, direct: true,
			args: []string{"--gres=none", "plain.sh"}},
		{name: "a verdict that says no", settings: enforce + wants, direct: true,
			args: []string{"--comment=vramplan:verdict=does_not_fit", "fits.sh"}, refused: true,
			says: "vramplan: this job does not fit"},
		{name: "broken settings", settings: "s = nil .. 1", direct: true, args: []string{"too_large.sh"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c.settings(t, tt.settings)
			c.reload(t)
			conf := c.path("slurm.conf")
			if tt.direct {
				conf = c.direct
			}
			out, accepted := c.submit(t, conf, "", append([]string{"--hold"}, tt.args...)...)
			if accepted == tt.refused || !strings.Contains(out, tt.says) || tt.says == "" &&
				strings.Contains(out, "vramplan") {
				t.Errorf("accepted: %v, want %v with %q; sbatch says\n%s", accepted, !tt.refused, tt.says, out)
			}
		})
	}
}

// BenchmarkSubmit is sbatch with the filter and without it; the difference is what users wait for.
func BenchmarkSubmit(b *testing.B) {
	c := start(b)
	put(b, c.path("fits.sh"), fits)
	c.settings(b, enforce)
	for _, bb := range []struct{ name, conf string }{{"without", c.direct}, {"with", c.path("slurm.conf")}} {
		b.Run(bb.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if out, accepted := c.submit(b, bb.conf, "", "--hold", "fits.sh"); !accepted {
					b.Fatal(out)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1e3, "ms/median")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1e3, "ms/p99")
		})
	}
}
