package api_test

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/openapi/demo"
)

// untouched is the precondition of somebody who has seen that nothing was activated yet.
const untouched = `If-Match: "activation-0"`

const activateDemo = `{"calibration": "` + demo.Calibration + `"}`

const measuredJob = `{"model": {"preset": "nanogpt/train_gpt2"}, "training": {"micro_batch": 8}, "gpus": ["rtx-4070"]}`

// An activation is seen wherever answers name what they are made with, and a pinned calibration is not moved by it.
func TestActivationIsSeenEverywhere(t *testing.T) {
	h := newDemo(t)
	builtin := call(h, "POST", "/v1/estimate", measuredJob).Body.String()
	pinned := call(h, "POST", "/v1/estimate?calibration="+demo.Calibration, measuredJob).Body.String()
	if !strings.Contains(builtin, `"calibration":"builtin-3"`) ||
		!strings.Contains(pinned, `"calibration":"`+demo.Calibration+`"`) {
		t.Fatalf("%s\n%s", builtin, pinned)
	}
	if w := call(h, "PUT", "/v1/calibrations/active", `{"calibration": "`+demo.Calibration+`"}`, withKey, untouched); w.Code != 200 || !strings.Contains(w.Body.String(), `"number":1`) || w.Header().Get("Etag") != `"activation-1"` {
		t.Fatalf("%d %s %v", w.Code, w.Body, w.Header())
	}
	if now := call(h, "POST", "/v1/estimate", measuredJob).Body.String(); now != pinned {
		t.Errorf("active:\n%s\npinned before:\n%s", now, pinned)
	}
	if again := call(h, "POST", "/v1/estimate?calibration=builtin-3", measuredJob).Body.String(); again != builtin {
		t.Errorf("built in:\n%s\nbefore:\n%s", again, builtin)
	}
	line := strings.ReplaceAll(measuredJob, "\n", " ") + "\n"
	for query, want := range map[string]string{"": pinned, "?calibration=builtin-3": builtin} {
		if w := call(h, "POST", "/v1/estimate/batch"+query, line+line, "Content-Type: application/x-ndjson"); w.Code != 200 || w.Body.String() != want+want {
			t.Errorf("batch%s: %d %s", query, w.Code, w.Body)
		}
	}
	for path, want := range map[string]string{
		"/v1/version": `"calibration":"` + demo.Calibration + `"`,
		"/readyz":     `"calibration":"` + demo.Calibration + `"`,
		"/metrics": `vramplan_calibration_info{activated="` + demo.Calibration + `",calibration="` +
			demo.Calibration + `"} 1`,
		"/v1/calibrations":        `"activated":"` + demo.Calibration + `"`,
		"/v1/calibrations/active": `"name":"ci"`,
	} {
		if w := call(h, "GET", path, "", withKey); w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d, without %s:\n%s", path, w.Code, want, w.Body)
		}
	}
	plan := call(h, "POST", "/v1/plan", strings.Replace(measuredJob, `"gpus"`, `"effective_batch": 64, "gpus"`, 1))
	if plan.Code != 200 || !strings.Contains(plan.Body.String(), `"calibration":"`+demo.Calibration+`"`) {
		t.Errorf("plan: %d %s", plan.Code, plan.Body)
	}
	c := webhook(t, func(api.Options) *api.API { return h })
	r := c.review(t, "/audit", ask(t, batchJob(measuredJob, pods(rtx4070, "nvidia.com/gpu", 1))))
	if versions := r.AuditAnnotations["versions"]; !strings.HasSuffix(versions, " "+demo.Calibration) {
		t.Errorf("admission was decided with %q", versions)
	}
}

// Of two operators who have seen the same, the second is told to look again.
func TestActivationsDoNotOverwriteOneAnother(t *testing.T) {
	h := newDemo(t)
	seen := call(h, "GET", "/v1/calibrations/active", "", withKey).Header().Get("Etag")
	if w := call(h, "PUT", "/v1/calibrations/active", activateDemo, withKey, "If-Match: "+seen); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	builtin := `{"calibration": "builtin-3"}`
	if w := call(h, "PUT", "/v1/calibrations/active", builtin, withKey, "If-Match: "+seen); w.Code != 412 ||
		!strings.Contains(w.Body.String(), demo.Calibration+" is active now") {
		t.Errorf("the second: %d %s", w.Code, w.Body)
	}
	now := call(h, "GET", "/v1/calibrations/active?page_size=1", "", withKey)
	if !strings.Contains(now.Body.String(), `"activated":"`+demo.Calibration+`"`) {
		t.Errorf("%s", now.Body)
	}
	for _, known := range []string{now.Header().Get("Etag"), "*"} {
		if w := call(h, "PUT", "/v1/calibrations/active", builtin, withKey, "If-Match: "+known); w.Code != 200 {
			t.Errorf("with %s: %d %s", known, w.Code, w.Body)
		}
	}
	var numbers []int64
	for token := ""; ; {
		var page api.ActivationList
		w := call(h, "GET", "/v1/calibrations/active?page_size=2"+token, "", withKey)
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || len(page.Activations) == 0 {
			t.Fatalf("%v: %s", err, w.Body)
		}
		for _, a := range page.Activations {
			numbers = append(numbers, a.Number)
		}
		if page.NextPageToken == "" {
			break
		}
		token = "&page_token=" + page.NextPageToken
	}
	if !slices.Equal(numbers, []int64{3, 2, 1}) {
		t.Errorf("the pages hold %v", numbers)
	}
}

// What is asked wrongly of calibrations is refused, before anything is worked on.
func TestCalibrationRequests(t *testing.T) {
	h := newDemo(t)
	for _, c := range []struct {
		method, target, body string
		headers              []string
		status               int
		says                 string
	}{
		{"POST", "/v1/estimate/batch?calibration=cal-9-000000000000", "{\n{\n",
			[]string{"Content-Type: application/x-ndjson"}, 422, "there are builtin-3, " + demo.Calibration},
		{"POST", "/v1/plan?calibration=", measuredJob, nil, 400, "calibration is"},
		{"POST", "/v1/compare?calibration=%00", measuredJob, nil, 400, "calibration is"},
		{"GET", "/v1/accuracy?calibration=a%20b", "", nil, 400, "calibration is"},
		{"POST", "/v1/calibrations", `{}`, nil, 401, "calibrations:write"},
		{"POST", "/v1/calibrations", `{}`, []string{"Authorization: Bearer " + demo.ReadKey}, 403,
			"calibrations:write"},
		{"POST", "/v1/calibrations", `{"sinc": ""}`, []string{withKey}, 400, "did you mean since"},
		{"POST", "/v1/calibrations", `{"note": "a\u0000"}`, []string{withKey}, 422, "/note"},
		{"POST", "/v1/calibrations", `{}`, []string{withKey}, 409, "of 2 observations 2 can be used"},
		{"PUT", "/v1/calibrations/active", `{}`, []string{withKey, untouched}, 422, "/calibration"},
		{"PUT", "/v1/calibrations/active", `{"calibration": "cal-1-\u0000"}`, []string{withKey, untouched}, 422,
			"there is no calibration"},
		{"PUT", "/v1/calibrations/active", activateDemo, []string{withKey}, 428,
			"If-Match with the ETag of /v1/calibrations/active"},
		{"PUT", "/v1/calibrations/active", activateDemo, []string{withKey, `If-Match: "activation-7"`}, 412,
			`builtin-3 is active now, with the version \"activation-0\"`},
		{"PUT", "/v1/calibrations/active", activateDemo, []string{withKey, "If-None-Match: *"}, 412,
			"builtin-3 is active now"},
		{"PUT", "/v1/calibrations/active", activateDemo, []string{withKey, `If-Match: "a"b"`}, 400, "If-Match is"},
		{"GET", "/v1/calibrations/cal-1-%00", "", []string{withKey}, 404, "there is no calibration"},
		{"GET", "/v1/calibrations/%ff", "", []string{withKey}, 404, "there is no calibration"},
		{"GET", "/v1/calibrations/builtin-3", "", []string{withKey}, 404, "there is no calibration"},
		{"GET", "/v1/calibrations/" + demo.Calibration, "", []string{withKey, `If-None-Match: "` + demo.Calibration +
			`"`}, 304, ""},
		{"GET", "/calibrations?page_token=0", "", []string{withKey}, 400, "page_token"},
		{"GET", "/calibrations/active?page_size=1001", "", []string{withKey}, 400, "page_size"},
		{"DELETE", "/v1/calibrations/" + demo.Calibration, "", []string{withKey}, 405, ""},
	} {
		if w := call(h, c.method, c.target, c.body, c.headers...); w.Code != c.status ||
			!strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s %s %s: %d, want %d with %q:\n%s", c.method, c.target, c.body, w.Code, c.status, c.says, w.Body)
		}
	}
}

// Whatever a user with a key sends about calibrations is done or refused.
func FuzzCalibrations(f *testing.F) {
	f.Add(false, `{"since": "2026-01-01T00:00:00Z", "until": "2026-01-01T00:00:00+99:00", "dry_run": true}`,
		"builtin-3")
	f.Add(false, `{"activate": true, "dry_run": true, "note": "\u0000"}`, "cal-1-\x00")
	f.Add(true, `{"calibration": "cal-1-5f2a9c01d7e4"}`, "cal-99999999999999999999-5f2a9c01d7e4")
	h := newDemo(f)
	f.Fuzz(func(t *testing.T, activate bool, body, id string) {
		method, target := "POST", "/v1/calibrations"
		if activate {
			method, target = "PUT", "/v1/calibrations/active"
		}
		if w := call(h, method, target, body, withKey, "Content-Type: application/json", "If-Match: *"); w.Code >= 500 {
			t.Fatalf("%s: status %d: %s", body, w.Code, w.Body)
		}
		if w := call(h, "POST", "/v1/estimate?calibration="+url.QueryEscape(id), measuredJob); w.Code >= 500 {
			t.Fatalf("%q: status %d: %s", id, w.Code, w.Body)
		}
	})
}
