package records

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRecords(t *testing.T) {
	for _, c := range []struct {
		name, format, content, job string
		want                       []string
		err                        string
	}{
		{"one", "json", "{\"job\":\n {}}", "", []string{`{"job":{}}`}, ""},
		{"several", "json", `{"a":1} [{"b":2},{"c":3}]`, "", []string{`{"a":1}`, `{"b":2}`, `{"c":3}`}, ""},
		{"without their job", "json", `[{"measured":{}},{"job":{"x":1}}]`, `{"y": 2}`,
			[]string{`{"measured":{},"job":{"y":2}}`, `{"job":{"x":1}}`}, ""},
		{"jobstats", "json", `{"nodes":{"a":{"gpu_used_memory":{"0":5,"1":7}},"b":{"gpu_used_memory":{"0":6}}}}`, `{}`,
			[]string{`{"source":"jobstats","measured":{"device_bytes":7},"job":{}}`}, ""},
		{"jobstats without GPUs", "json", `{"nodes":{"a":{"cpus":2}}}`, `{}`, nil,
			"record 1: the jobstats summary has no gpu_used_memory"},
		{"a table", "csv", "\uFEFFpreset,gpu,job.training.lora,out_of_memory,torch\n gpt2 ,\"A100, " +
			"40GB\",\"{\"\"rank\"\": 8}\",True,2.9\ngpt2,,,,\n", "",
			[]string{`{"job":{"model":{"preset":"gpt2"},"gpus":["A100, 40GB"],"training":{"lora":{"rank":8}}},"measured":{"out_of_memory":true},"versions":{"torch":"2.9"}}`, `{"job":{"model":{"preset":"gpt2"}}}`}, ""},
		{"a table with a short line", "csv", "a,b\n1\n", "", nil, "wrong number of fields"},
		{"a table without rows", "csv", "a,b\n", "", nil, "there are no records"},
		{"a column far down a list", "csv", "job.gpus.99999999\nx\n", "", nil, "neither a name nor a path"},
		{"nothing", "json", "", "", nil, "there are no records"},
		{"not JSON", "json", "[{]", "", nil, "invalid character"},
	} {
		records, err := Read([]byte(c.content), c.format, []byte(c.job))
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: error %v, want %s", c.name, err, c.err)
			}
			continue
		}
		var got []string
		for _, r := range records {
			got = append(got, string(r))
		}
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", c.name, err, diff)
		}
	}
}

// Whatever a file holds, its records are JSON on one line each, or it is refused.
func FuzzRecords(f *testing.F) {
	f.Add(`{"nodes":{"a":{"gpu_used_memory":{"0":5}}}}`, true)
	f.Add("preset,job.gpus.0,measured.\ngpt2,x,1\n", false)
	f.Add("job.gpus.99999999\nx\n", false)
	f.Add("@this.#.x|y\n1\n", false)
	f.Fuzz(func(t *testing.T, content string, isJSON bool) {
		format := "csv"
		if isJSON {
			format = "json"
		}
		records, err := Read([]byte(content), format, []byte(`{"model": {"preset": "gpt2"}}`))
		if err != nil {
			return
		}
		for _, r := range records {
			if !json.Valid(r) || strings.Contains(string(r), "\n") {
				t.Fatalf("%q of %q", r, content)
			}
		}
	})
}
