package browser

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/png"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/chromedp/chromedp"
)

// A Film takes pictures of a page while it changes.
type Film struct {
	tab   *Tab
	stop  chan struct{}
	ended sync.WaitGroup
	shots []shot
}

// A shot is a picture and the time at which it was taken.
type shot struct {
	at      time.Time
	picture *image.NRGBA
}

// Film begins to take pictures, ten a second at most.
func (b *Tab) Film() *Film {
	f := &Film{tab: b, stop: make(chan struct{})}
	f.ended.Go(func() {
		for {
			at := time.Now()
			picture, err := png.Decode(bytes.NewReader(b.Shoot(chromedp.FullScreenshot(100))))
			b.Must(err)
			nrgba := image.NewNRGBA(picture.Bounds())
			draw.Draw(nrgba, nrgba.Bounds(), picture, image.Point{}, draw.Src)
			f.shots = append(f.shots, shot{at, nrgba})
			select {
			case <-f.stop:
				return
			case <-time.After(time.Until(at.Add(100 * time.Millisecond))):
			}
		}
	})
	return f
}

// Write ends the film and writes it to a GIF that repeats, with a pause at its end.
func (f *Film) Write(file string) {
	f.tab.T.Helper()
	close(f.stop)
	f.ended.Wait()
	palette := f.palette()
	var g gif.GIF
	var last *image.NRGBA
	for i, s := range f.shots {
		lasts := 4 * time.Second
		if i+1 < len(f.shots) {
			lasts = f.shots[i+1].at.Sub(s.at)
		}
		changed := s.picture.Bounds()
		if last != nil {
			changed = difference(last, s.picture)
		}
		if changed.Empty() {
			g.Delay[len(g.Delay)-1] += int(lasts / (10 * time.Millisecond))
			continue
		}
		last = s.picture
		p := image.NewPaletted(changed, palette)
		draw.Draw(p, changed, s.picture, changed.Min, draw.Src)
		g.Image = append(g.Image, p)
		g.Delay = append(g.Delay, int(lasts/(10*time.Millisecond)))
	}
	var b bytes.Buffer
	f.tab.Must(gif.EncodeAll(&b, &g))
	f.tab.Must(os.WriteFile(file, b.Bytes(), 0o644))
}

// palette returns 256 colours that many pixels have. Of colours that are alike it has one, so that rare ones,
// such as that of a red cross, have a place.
func (f *Film) palette() color.Palette {
	pixels := map[color.NRGBA]int{}
	for _, s := range f.shots {
		for i := 0; i < len(s.picture.Pix); i += 4 {
			p := s.picture.Pix[i : i+4]
			pixels[color.NRGBA{p[0], p[1], p[2], p[3]}]++
		}
	}
	var p color.Palette
	alike := map[[3]uint8]bool{}
	for _, c := range slices.SortedFunc(maps.Keys(pixels), func(a, b color.NRGBA) int { return cmp.Compare(pixels[b], pixels[a]) }) {
		key := [3]uint8{c.R / 12, c.G / 12, c.B / 12}
		if !alike[key] && len(p) < 256 {
			alike[key] = true
			p = append(p, c)
		}
	}
	return p
}

// difference returns the smallest rectangle outside which two pictures are the same.
func difference(a, b *image.NRGBA) image.Rectangle {
	var changed image.Rectangle
	for y := range b.Bounds().Dy() {
		left, right := a.Pix[y*a.Stride:][:a.Stride], b.Pix[y*b.Stride:][:b.Stride]
		if bytes.Equal(left, right) {
			continue
		}
		for x := 0; x < b.Stride; x += 4 {
			if !bytes.Equal(left[x:x+4], right[x:x+4]) {
				changed = changed.Union(image.Rect(x/4, y, x/4+1, y+1))
			}
		}
	}
	return changed
}
