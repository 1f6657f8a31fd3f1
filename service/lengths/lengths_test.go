package lengths_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/service/lengths"
)

// The probabilities of Longest are those of all orders of a few samples.
func TestLongestAgainstEveryOrder(t *testing.T) {
	for _, c := range []struct {
		samples []int64
		batch   int64
	}{
		{[]int64{5, 3, 1, 2, 4}, 2}, {[]int64{5, 5, 1, 2, 4}, 2}, {[]int64{5, 5, 1, 2, 4}, 3},
		{[]int64{7, 1, 1, 1, 1, 1}, 3},
		{[]int64{4, 4, 4, 4}, 3}, {[]int64{9, 9, 9, 1, 2, 3, 4}, 4}, {[]int64{3, 2}, 8}, {[]int64{6}, 1},
	} {
		var h lengths.Histogram
		longest := int64(0)
		for _, n := range c.samples {
			h.Add(n)
			longest = max(longest, n)
		}
		b := int(min(c.batch, h.Samples))
		orders, having, batches := 0, 0, 0
		permute(c.samples, 0, func(order []int64) {
			orders++
			found := 0
			for at := 0; at+b <= len(order); at += b {
				for _, n := range order[at : at+b] {
					if n == longest {
						found++
						break
					}
				}
			}
			batches += found
			if found > 0 {
				having++
			}
		})
		got := h.Longest(c.batch)
		if want := float64(batches) / float64(orders); math.Abs(got.Expected-want) > 1e-12 {
			t.Errorf("%v in batches of %d: %v expected, and all orders say %v", c.samples, c.batch, got.Expected, want)
		}
		if want := float64(having) / float64(orders); math.Abs(got.Probability-want) > 1e-12 {
			t.Errorf("%v in batches of %d: probability %v, and all orders say %v", c.samples, c.batch, got.Probability, want)
		}
		if got.Samples != int64(b) || got.Tokens != longest {
			t.Errorf("%v in batches of %d: %d × %d", c.samples, c.batch, got.Samples, got.Tokens)
		}
	}
}

func permute(list []int64, at int, each func([]int64)) {
	if at == len(list) {
		each(list)
		return
	}
	for i := at; i < len(list); i++ {
		list[at], list[i] = list[i], list[at]
		permute(list, at+1, each)
		list[at], list[i] = list[i], list[at]
	}
}

func TestWithin(t *testing.T) {
	var h lengths.Histogram
	for n := int64(1); n <= 100; n++ {
		h.Add(n)
	}
	if m := h.Quantile(0.5); m != 50 {
		t.Errorf("the median of 1 to 100 is %d", m)
	}
	cut := h.Within(60, 8)
	if b := cut.Longest(4); b.Tokens != 64 || cut.Samples != 100 || cut.Quantile(0.05) != 8 {
		t.Errorf("1 to 100 cut at 60 and padded to eights: %d at most, %d samples, a twentieth has %d", b.Tokens, cut.Samples,
			cut.Quantile(0.05))
	}
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, text string
		o          lengths.Options
		want       string // the longest, the samples and all tokens, or what the error says
	}{
		{"a.jsonl", "{\"text\": \"abcdé\"}\n\n{\"text\": \"\"}\n", lengths.Options{TokensPerCharacter: 0.5}, "3 2 3"},
		{"a.jsonl", `{"input_ids": [1, 2, 3], "text": "x"}`, lengths.Options{}, "3 1 3"},
		{"a.json", `[{"messages": [{"role": "user", "content": "abcd"}, {"role": "assistant", "content": [{"type": "text", "text": "ef"}]}]}]`,
			lengths.Options{TokensPerCharacter: 1}, "6 1 6"},
		{"a.CSV", "id,instruction,output\n1,abc,\"d\ne\"\n2,f,\n", lengths.Options{TokensPerCharacter: 1}, "6 2 7"},
		{"a.csv", "q,a\nab,cde\n", lengths.Options{TokensPerCharacter: 1, Fields: []string{"q", "a"}}, "5 1 5"},
		{"a.jsonl", `{"prompt": "ab", "completion": null}`, lengths.Options{TokensPerCharacter: 1}, "2 1 2"},
		{"a.jsonl", "{\"text\": \"a\"}\n{\"text\": 5}", lengths.Options{TokensPerCharacter: 1}, `a.jsonl, line 2: the field "text"`},
		{"a.jsonl", "{\"text\": \"a\"}\n[", lengths.Options{TokensPerCharacter: 1}, "a.jsonl, line 2: \"[\" is no JSON object"},
		{"a.jsonl", `{"chosen": "a", "rejected": "b"}`, lengths.Options{TokensPerCharacter: 1}, "fields chosen, rejected"},
		{"a.jsonl", `{"text": "a"}`, lengths.Options{}, "--tokens-per-character"},
		{"a.jsonl", `{"text": "a"}`, lengths.Options{Fields: []string{"b"}}, `no field "b"; the sample has text`},
		{"a.json", `{"text": "a"}`, lengths.Options{}, "is a list of samples"},
		{"a.json", `[{"input_ids": [1]}`, lengths.Options{}, "does not end"},
		{"a.csv", "a,b\n1\n", lengths.Options{}, "wrong number of fields"},
		{"-", `{"input_ids": [1, 2]}`, lengths.Options{}, "2 1 2"},
		{"a.jsonl", "\n", lengths.Options{}, "no samples"},
		{"a.parquet", "", lengths.Options{}, "known by its end"},
		{"a.jsonl", `{"text": "abcd"}`, lengths.Options{TokensPerCharacter: 1e9}, "is the most that is accepted"},
	} {
		c.o.Name = c.name
		h, err := lengths.Read(strings.NewReader(c.text), c.o)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(h.Longest(1).Tokens, h.Samples, h.Tokens)
		}
		if err == nil && got != c.want || !strings.Contains(got, c.want) {
			t.Errorf("%s %q: %s, not %s", c.name, c.text, got, c.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"a.jsonl", "a.json", "a.csv"} {
		f.Add(name, `[{"text": "a", "messages": [{"content": "b"}]}]`)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		h, err := lengths.Read(strings.NewReader(text), lengths.Options{Name: name, TokensPerCharacter: 0.25})
		if err != nil {
			return
		}
		if b := h.Longest(4); h.Samples < 1 || b.Probability < 0 || b.Probability > 1 || b.Tokens > h.Tokens {
			t.Errorf("%d samples of %d tokens, of which a batch is %+v", h.Samples, h.Tokens, b)
		}
	})
}
