package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/calibration"
	"github.com/vramplan/vramplan/service"
)

// calibrations is what operators were told of the calibrations of a service that is killed again and again.
type calibrations struct {
	t        testing.TB
	client   *http.Client
	url, key string
	runs     atomic.Int64

	mu sync.Mutex
	// stored are the calibrations that were acknowledged, by id, and answers what was said of one job with them.
	stored  map[string]service.Calibration
	answers map[string][]byte
	// activated are the activations that were acknowledged, by number.
	activated map[int64]string
	// fits and activations that were asked for and not answered may have been stored or not.
	unansweredFits, unansweredActivations int
}

// runJob is one of many small jobs, which differ in what they take.
func runJob(n int64) string {
	return fmt.Sprintf(`{"model": {"nanogpt": {"n_layer": 1, "n_head": 2, "n_embd": 64}}, "training": {"micro_batch": %d, "sequence_length": %d}, "gpus": ["rtx-4090"]}`, 1+n%64, 64*(1+n/64%16))
}

// ask sends a request with the key; ok is false where the service is gone. Another status than those that are accepted
// is wrong.
func (c *calibrations) ask(method, path, body string, accepted ...int) (r reply, ok bool) {
	r = ask(c.client, method, c.url+path, body, "Authorization: Bearer "+c.key, "If-Match: *")
	if r.err != nil {
		return r, false
	}
	if !slices.Contains(accepted, r.status) {
		c.t.Errorf("%s %s: %d %s", method, path, r.status, r.body)
		return r, false
	}
	return r, true
}

// measure reports a run of a job that nobody measured before, so that the next fit has figures of its own.
func (c *calibrations) measure() bool {
	job := runJob(c.runs.Add(1))
	r, ok := c.ask(http.MethodPost, "/v1/estimate?calibration="+estimator.Calibration, job, http.StatusOK)
	if !ok {
		return false
	}
	var predicted estimator.Result
	if err := json.Unmarshal(r.body, &predicted); err != nil {
		c.t.Error(err)
		return false
	}
	measured := predicted.Peak.DeviceBytes + 100<<20 + c.runs.Load()%7<<20
	_, ok = c.ask(http.MethodPost, "/v1/observations", fmt.Sprintf(`{"job": %s, "measured": {"device_bytes": %d}}`, job,
		measured), http.StatusCreated)
	return ok
}

// fit makes a version and keeps what it answers.
func (c *calibrations) fit() (id string, ok bool) {
	r, ok := c.ask(http.MethodPost, "/v1/calibrations", `{}`, http.StatusCreated, http.StatusOK)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !ok {
		c.unansweredFits++
		return "", false
	}
	var fitted service.FittedCalibration
	if err := json.Unmarshal(r.body, &fitted); err != nil {
		c.t.Error(err)
		return "", false
	}
	c.stored[fitted.ID] = *fitted.Calibration
	if a := fitted.Activation; a != nil {
		c.told(a)
	}
	if answer, ok := c.answer(fitted.ID); ok {
		c.answers[fitted.ID] = answer
	}
	return fitted.ID, true
}

func (c *calibrations) answer(id string) ([]byte, bool) {
	r, ok := c.ask(http.MethodPost, "/v1/estimate?calibration="+id, runJob(5), http.StatusOK)
	return r.body, ok
}

// activate puts a version in force.
func (c *calibrations) activate(id string) bool {
	r, ok := c.ask(http.MethodPut, "/v1/calibrations/active", `{"calibration": "`+id+`"}`, http.StatusOK)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !ok {
		c.unansweredActivations++
		return false
	}
	var a service.Activation
	if err := json.Unmarshal(r.body, &a); err != nil || a.Calibration != id {
		c.t.Errorf("activate %s: %s, %v", id, r.body, err)
	}
	c.told(&a)
	return true
}

// told notes an activation that was acknowledged.
func (c *calibrations) told(a *service.Activation) {
	if other, taken := c.activated[a.Number]; taken {
		c.t.Errorf("%s and %s are both activation %d", other, a.Calibration, a.Number)
	}
	c.activated[a.Number] = a.Calibration
}

// operate fits and activates until the service is gone.
func (c *calibrations) operate() {
	for n := 0; ; n++ {
		if !c.measure() {
			return
		}
		id, ok := c.fit()
		if !ok || !c.activate(id) {
			return
		}
		if n%3 == 0 && !c.activate(estimator.Calibration) {
			return
		}
	}
}

// pages reads a list to its end.
func pages[L any](c *calibrations, path string, more func(*L) (next string)) {
	for token := ""; ; {
		r, ok := c.ask(http.MethodGet, path+"?page_size=1000"+token, "", http.StatusOK)
		if !ok {
			c.t.Errorf("%s: %v", path, r.err)
			return
		}
		list := new(L)
		if err := json.Unmarshal(r.body, list); err != nil {
			c.t.Errorf("%s: %v", path, err)
			return
		}
		next := more(list)
		if next == "" {
			return
		}
		token = "&page_token=" + next
	}
}

// check finds everything that was acknowledged, and nothing that is half there. whole is how many of the newest
// versions are read in full.
func (c *calibrations) check(whole int) {
	versions := map[string]bool{estimator.Calibration: true}
	var ids []string
	pages(c, "/v1/calibrations", func(l *api.CalibrationList) string {
		for i := range l.Calibrations {
			k := &l.Calibrations[i]
			versions[k.ID] = true
			ids = append(ids, k.ID)
		}
		return l.NextPageToken
	})
	for i, id := range ids {
		if want := fmt.Sprintf("cal-%d-", len(ids)-i); !strings.HasPrefix(id, want) {
			c.t.Errorf("%s is where %s… belongs", id, want)
		}
	}
	if n := len(c.stored); len(ids) < n || len(ids) > n+c.unansweredFits {
		c.t.Errorf("%d calibrations are stored; %d were acknowledged, %d not answered", len(ids), n, c.unansweredFits)
	}
	for _, id := range ids[:min(whole, len(ids))] {
		c.checkWhole(id)
	}
	for id := range c.stored {
		if !versions[id] {
			c.t.Errorf("%s was acknowledged and is lost", id)
		}
	}
	c.checkActive(versions)
}

// checkWhole reads a version in full: it is what was acknowledged, its id is that of its figures, and answers with it
// are the same bytes.
func (c *calibrations) checkWhole(id string) {
	r, ok := c.ask(http.MethodGet, "/v1/calibrations/"+id, "", http.StatusOK)
	if !ok {
		return
	}
	var got service.Calibration
	if err := json.Unmarshal(r.body, &got); err != nil {
		c.t.Errorf("%s: %v", id, err)
		return
	}
	if want, told := c.stored[id]; told {
		if text, err := json.Marshal(want); err != nil || string(text) != string(bytes.TrimSpace(r.body)) {
			c.t.Errorf("%s was acknowledged as\n%s\nand is\n%s%v", id, text, r.body, err)
		}
	}
	figures, err := json.Marshal(struct {
		Estimator, Base string
		Groups          []calibration.Group
	}{got.Estimator, got.Base, got.Groups})
	sum := sha256.Sum256(figures)
	if digest := hex.EncodeToString(sum[:]); err != nil || len(got.Groups) == 0 || digest != got.Digest || id != "cal-"+
		strconv.FormatInt(got.Number, 10)+"-"+digest[:12] {
		c.t.Errorf("%s is half written: %s", id, r.body)
	}
	answer, ok := c.answer(id)
	if before := c.answers[id]; ok && before != nil && !bytes.Equal(before, answer) {
		c.t.Errorf("%s gave\n%s\nand gives\n%s", id, before, answer)
	}
}

// checkActive holds what is active against the history, and the history against what was acknowledged.
func (c *calibrations) checkActive(versions map[string]bool) {
	var history []service.Activation
	var status service.CalibrationStatus
	pages(c, "/v1/calibrations/active", func(l *api.ActivationList) string {
		history, status = append(history, l.Activations...), l.CalibrationStatus
		return l.NextPageToken
	})
	active := estimator.Calibration
	if len(history) > 0 {
		active = history[0].Calibration
	}
	if status.Activated != active || status.Calibration != active {
		c.t.Errorf("the last activation is %s, the service answers with %+v", active, status)
	}
	if r, ok := c.ask(http.MethodPost, "/v1/estimate", runJob(5), http.StatusOK); ok &&
		!bytes.Contains(r.body, []byte(`"calibration":"`+active+`"`)) {
		c.t.Errorf("an answer without %s: %s", active, r.body)
	}
	for i, a := range history {
		if a.Number != int64(len(history)-i) || !versions[a.Calibration] || a.Refused != "" && !versions[a.Refused] {
			c.t.Errorf("activation %d of %d: %+v", len(history)-i, len(history), a)
		}
		if told, ok := c.activated[a.Number]; ok && told != a.Calibration {
			c.t.Errorf("activation %d was acknowledged as %s and is %s", a.Number, told, a.Calibration)
		}
	}
	for number, id := range c.activated {
		if number > int64(len(history)) {
			c.t.Errorf("activation %d, of %s, was acknowledged and is lost", number, id)
		}
	}
	// a fit may end with an activation by the policy
	if n := len(c.activated); len(history) > n+c.unansweredActivations+c.unansweredFits {
		c.t.Errorf("%d activations are stored; %d were acknowledged, %d and %d fits not answered", len(history), n,
			c.unansweredActivations, c.unansweredFits)
	}
}

// The service is killed with kill -9 at random moments while two operators, and every other time its policy too,
// activate calibrations that were fitted. A version is whole or not there, what is active and its history agree, and
// what was acknowledged answers with the same bytes after each start.
func TestCrashesWhileCalibrating(t *testing.T) {
	for name, create := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of the time is spent waiting
			database, folder := create(t), t.TempDir()
			c := &calibrations{t: t, client: newClient(), key: newKey(t, database),
				stored: map[string]service.Calibration{}, answers: map[string][]byte{}, activated: map[int64]string{}}
			random := rand.New(rand.NewPCG(3, uint64(len(name))))
			total := crashes(t)
			for n := range total {
				p := startService(t, database, folder, "--calibration-activation",
					[]string{"explicit", "held-out-better"}[n%2])
				c.url = p.url
				if n == 0 {
					for range 32 { // enough for a fit
						if !c.measure() {
							t.FailNow()
						}
					}
				}
				c.check(3)
				var working sync.WaitGroup
				for range 2 {
					working.Go(c.operate)
				}
				if n == 0 { // however slow the machine is, something is written
					eventually(t, "an activation", func() (string, bool) {
						c.mu.Lock()
						defer c.mu.Unlock()
						return "none yet", len(c.activated) > 0 || t.Failed()
					})
				}
				time.Sleep(time.Duration(random.IntN(300_000)) * time.Microsecond)
				p.kill()
				working.Wait()
				c.client.CloseIdleConnections()
				settle(t, database)
				wholeDatabase(t, database)
				if t.Failed() {
					t.Fatal(p.log())
				}
			}
			p := startService(t, database, folder)
			c.url = p.url
			c.check(len(c.stored) + c.unansweredFits)
			t.Logf("killed %d times; %d calibrations and %d activations acknowledged, %d and %d not answered; %d "+
				"answers compared",
				total, len(c.stored), len(c.activated), c.unansweredFits, c.unansweredActivations, len(c.answers))
		})
	}
}
