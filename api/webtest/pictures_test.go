package webtest

import (
	"bytes"
	"flag"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

var update = flag.Bool("update", false, "write the pictures in docs/pictures anew")

const (
	// block is the side of the squares that are compared by their mean: edges of letters and lines differ by release of
	// the browser.
	block = 4
	// different is how far the means of two squares are apart, of 255, where somebody would see it.
	different = 16
	// tolerated is the share of squares that may be different: a few figures more or less, and no other layout.
	tolerated = 0.02
)

// TestPictures compares the page with the pictures of it that the documentation shows.
func TestPictures(t *testing.T) {
	for _, of := range []string{"opentype/inter", "truetype/dejavu"} {
		if _, err := os.Stat(filepath.Join("/usr/share/fonts", of)); err != nil {
			missing(t, fmt.Sprintf("the pictures need Debian's fonts-inter and fonts-dejavu-core: %v", err))
		}
	}
	for name, l := range map[string]look{
		"page-1280-light": {1280, 900, "light"},
		"page-1280-dark":  {1280, 900, "dark"},
		"page-360-light":  {360, 1400, "light"},
		"page-360-dark":   {360, 1400, "dark"},
		"page-2560-dark":  {2560, 1440, "dark"},
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, l, "")
			if wide := eval[int](p, `document.documentElement.scrollWidth`); wide > int(l.width) {
				t.Errorf("the page is %d px wide, more than the %d of the window", wide, l.width)
			}
			// What differs from run to run.
			eval[chromedp.Void](p, `{
				for (const id of ["heat-words", "elsewhere"]) {
					const at = document.getElementById(id);
					at.textContent = at.textContent.replace(/in \d+ ms/, "in 100 ms").replace(location.origin, "http://127.0.0.1:8080");
				}
			}`)
			shot, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("..", "..", "docs", "pictures", name+".png")
			if *update {
				if err := os.WriteFile(path, smaller(t, shot), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			share, err := difference(decoded(t, want), decoded(t, shot))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%.2f %% of the picture is different", 100*share)
			if share > tolerated {
				saved := filepath.Join(os.TempDir(), name+".png")
				if err := os.WriteFile(saved, shot, 0o600); err != nil {
					t.Error(err)
				}
				t.Errorf("%.1f %% of the picture is different, more than %.0f %%; what was seen is in %s, and "+
					"-update writes it down", 100*share, 100*tolerated, saved)
			}
		})
	}
}

// TestPictureDifference: a page that is laid out anew or in other colours is noticed, and another figure is not.
func TestPictureDifference(t *testing.T) {
	read := func(name string) *image.RGBA {
		b, err := os.ReadFile(filepath.Join("..", "..", "docs", "pictures", name+".png"))
		if err != nil {
			t.Fatal(err)
		}
		return decoded(t, b)
	}
	whole := read("page-1280-light")
	moved := image.NewRGBA(whole.Rect)
	draw.Draw(moved, moved.Rect, whole, image.Pt(0, -12), draw.Src)
	figure := image.NewRGBA(whole.Rect)
	draw.Draw(figure, figure.Rect, whole, image.Point{}, draw.Src)
	draw.Draw(figure, image.Rect(700, 80, 760, 100), image.White, image.Point{}, draw.Src)
	for name, c := range map[string]struct {
		other   *image.RGBA
		noticed bool
	}{
		"the same": {whole, false}, "another figure": {figure, false}, "12 px further down": {moved, true},
		"dark": {read("page-1280-dark"), true},
	} {
		share, err := difference(whole, c.other)
		if err != nil {
			t.Fatal(err)
		}
		if share > tolerated != c.noticed {
			t.Errorf("%s: %.2f %% is different", name, 100*share)
		}
	}
	if _, err := difference(whole, read("page-360-light")); err == nil {
		t.Error("a picture of another size is compared")
	}
}

// difference is the share of squares of two pictures whose mean colours are visibly apart.
func difference(a, b *image.RGBA) (float64, error) {
	if a.Rect != b.Rect {
		return 0, fmt.Errorf("the pictures are %v and %v large", a.Rect.Size(), b.Rect.Size())
	}
	var apart, all int
	for y := 0; y+block <= a.Rect.Dy(); y += block {
		for x := 0; x+block <= a.Rect.Dx(); x += block {
			all++
			ma, mb := mean(a, x, y), mean(b, x, y)
			for c := range ma {
				if d := ma[c] - mb[c]; d > different || d < -different {
					apart++
					break
				}
			}
		}
	}
	return float64(apart) / float64(all), nil
}

// mean is the colour of a square.
func mean(m *image.RGBA, x, y int) (sum [3]int) {
	for dy := range block {
		for dx := range block {
			at := m.PixOffset(x+dx, y+dy)
			for c := range sum {
				sum[c] += int(m.Pix[at+c])
			}
		}
	}
	for c := range sum {
		sum[c] /= block * block
	}
	return sum
}

func decoded(t *testing.T, b []byte) *image.RGBA {
	t.Helper()
	m, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	out := image.NewRGBA(image.Rect(0, 0, m.Bounds().Dx(), m.Bounds().Dy()))
	draw.Draw(out, out.Rect, m, m.Bounds().Min, draw.Src)
	return out
}

// smaller is a picture in as few bytes as PNG does without loss.
func smaller(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&out, decoded(t, b)); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
