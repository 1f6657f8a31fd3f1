// Package webtest has the tests of the page in a real browser.
package webtest

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/service"
)

// browserSetting is "required" where a browser that is not there is a failure and not a reason to skip, as in CI.
const browserSetting = "VRAMPLAN_TEST_BROWSER"

// patience is for one step of a test on a slow, loaded machine.
const patience = 60 * time.Second

// fonts are what Debian's fonts-inter and fonts-dejavu-core have, whatever else is installed: pictures depend on it.
const fonts = `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>/usr/share/fonts/opentype/inter</dir><dir>/usr/share/fonts/truetype/dejavu</dir><cachedir>%s</cachedir>
<match target="pattern"><test name="family"><string>monospace</string></test><edit name="family" mode="assign" binding="strong"><string>DejaVu Sans Mono</string></edit></match>
<alias binding="strong"><family>system-ui</family><prefer><family>Inter</family></prefer></alias>
<alias binding="strong"><family>sans-serif</family><prefer><family>Inter</family></prefer></alias>
</fontconfig>`

// shared is what all tests have: one browser, and one service.
var shared struct {
	browser context.Context
	url     string
	missing string // why there is no browser
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	path, err := findBrowser()
	if err != nil {
		shared.missing = err.Error()
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "webtest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	config := filepath.Join(dir, "fonts.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, fonts, filepath.Join(dir, "fonts")), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Env("FONTCONFIG_FILE="+config),
		chromedp.UserDataDir(filepath.Join(dir, "profile")),
		chromedp.Flag("font-render-hinting", "none"), chromedp.Flag("force-color-profile", "srgb"),
		chromedp.Flag("hide-scrollbars", true))...)
	defer stop()
	browser, quit := chromedp.NewContext(allocator)
	defer quit()
	if err := chromedp.Do(browser); err != nil {
		fmt.Fprintf(os.Stderr, "start %s: %v\n", path, err)
		return 1
	}
	server := httptest.NewServer(api.New(service.New(service.EmbeddedCatalog()), api.Options{}))
	defer server.Close()
	shared.browser, shared.url = browser, server.URL
	return m.Run()
}

// findBrowser looks for Chromium under the names that distributions give it.
func findBrowser() (string, error) {
	names := []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("none of %s is installed", strings.Join(names, ", "))
}

// tab is a page of the browser, with what went wrong in it.
type tab struct {
	testing.TB
	ctx context.Context
}

// look is what a visitor's browser is set to.
type look struct {
	width, height int64
	scheme        string // light or dark
}

var desktop = look{1280, 900, "light"}

// open opens the page with what is behind # in its address, and waits for its answer. Whatever a script of the page
// throws or a policy keeps it from fails the test.
func open(t testing.TB, l look, hash string) *tab {
	t.Helper()
	if shared.missing != "" {
		missing(t, shared.missing)
	}
	ctx, done := chromedp.NewContext(shared.browser)
	t.Cleanup(done)
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	t.Cleanup(cancel)
	p := &tab{t, ctx}
	p.do("open a tab", chromedp.EmulateViewport(l.width, l.height),
		chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.scheme},
				{Name: "prefers-reduced-motion", Value: "reduce"}}
			_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia,
				emulation.SetEmulatedMediaParams{Features: features})
			return err
		}))
	messages := chromedp.Console(p.ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			// A refusal of the API is an answer; the browser reports it all the same.
			if wrong := m.Type == "error" || m.Type == "warning" || m.Type == "exception"; wrong &&
				!strings.HasPrefix(m.Text, "Failed to load resource") {
				p.Errorf("the browser's console: %v", m)
			}
		}
	}()
	p.do("load the page", chromedp.Navigate(shared.url+"/"+hash))
	p.settled()
	return p
}

// missing ends a test for want of what it needs: as a failure where that is required.
func missing(t testing.TB, why string) {
	t.Helper()
	if os.Getenv(browserSetting) == "required" {
		t.Fatalf("%s; %s says that it is required", why, browserSetting)
	}
	t.Skip(why)
}

// do runs steps in the tab.
func (p *tab) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.Fatalf("%s: %v", what, err)
	}
}

// eval is the value of an expression in the page.
func eval[T any](p *tab, expression string) T {
	p.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.Fatalf("evaluate %s: %v", expression, err)
	}
	return v
}

// wait waits until an expression is true in the page.
func (p *tab) wait(expression string) {
	p.Helper()
	const script = `new Promise((done) => {
		const end = Date.now() + %d;
		const look = () => { let is = false; try { is = Boolean(%s); } catch {} if (is || Date.now() > end) done(is); else setTimeout(look, 20); };
		look();
	})`
	if !eval[bool](p, fmt.Sprintf(script, patience.Milliseconds(), expression)) {
		p.Fatalf("never true: %s\nthe sentence is %q, problems %q, at fields %q", expression, p.text("#sentence"),
			p.text("#problem"),
			eval[string](p, `[...document.querySelectorAll("#job .error:not([hidden])")].map((e) => e.textContent).join(" / ")`))
	}
}

// settled waits until nothing is being asked, with what was typed taken up.
func (p *tab) settled() {
	p.Helper()
	p.wait(`document.readyState === "complete" && document.body.dataset.asked && !document.body.classList.contains("asking")`)
}

// text is what an element says, with ordinary spaces.
func (p *tab) text(selector string) string {
	p.Helper()
	return eval[string](p, fmt.Sprintf(`document.querySelector(%q)?.textContent.replaceAll("\u00a0", " ").trim() ?? "(no such element)"`, selector))
}

// says waits until an element says something.
func (p *tab) says(selector, words string) {
	p.Helper()
	p.wait(fmt.Sprintf(`document.querySelector(%q).textContent.replaceAll("\u00a0", " ").includes(%q)`, selector,
		words))
}

// set types over the value of a field, as somebody does who selects all of it first.
func (p *tab) set(id, value string) {
	p.Helper()
	p.do("focus "+id, chromedp.Focus(chromedp.ID(id)))
	eval[chromedp.Void](p, fmt.Sprintf(`document.getElementById(%q).select()`, id))
	p.do("type into "+id, chromedp.KeyEvent(value))
}

// choose chooses an option of a select.
func (p *tab) choose(id, value string) {
	p.Helper()
	eval[chromedp.Void](p, fmt.Sprintf(`{ const s = document.getElementById(%q); s.value = %q; s.dispatchEvent(new Event("change")); }`, id, value))
	if got := eval[string](p, fmt.Sprintf(`document.getElementById(%q).value`, id)); got != value {
		p.Fatalf("%s has no option %q", id, value)
	}
}

// click clicks where an element is, as a mouse does.
func (p *tab) click(selector string) {
	p.Helper()
	p.do("click "+selector, chromedp.Click(chromedp.CSS(selector)))
}

// job is the job document that the page has.
func (p *tab) job() string {
	p.Helper()
	return eval[string](p, `JSON.stringify(JSON.parse(document.getElementById("document-text").value))`)
}

func axeScript(t *testing.T) string {
	t.Helper()
	f, err := os.Open("testdata/axe/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	script, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(script)
}
