// Package replay shows what the sidecar is for: it replays recorded streams of
// Hermes, reads each of them straight from the backend and through a
// sidecar, and prints both as a chat client would show them.
//
// It knows the sidecar by its URL only, and Caddy not at all.
package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"charm.land/lipgloss/v2"
)

// patience is how much longer than its recording a stream may take before it
// counts as stuck.
const patience = 15 * time.Second

// ErrNotRepaired is the error of Run for a stream that is not as it should be.
var ErrNotRepaired = errors.New("not as it should be")

// A Demo reads scenarios on both sides and prints them.
type Demo struct {
	Backend, Sidecar string     // addresses, host and port
	Scenarios        []Scenario // in the order in which they are shown
	Speed            float64    // the backend's; it says how long a stream may take
	Raw              bool       // print the frames as they came instead of what a client shows
	Out              io.Writer
	Screen           Screen // what Out can show
}

// Run shows all scenarios. It returns an error that wraps ErrNotRepaired when
// a stream was not as it should be, the error of ctx when that ended, and the
// error of Out.
func (d *Demo) Run(ctx context.Context) error {
	var failed []string
	for i, s := range d.Scenarios {
		p := play{
			scenario:  s,
			title:     fmt.Sprintf("%d/%d %s: %s", i+1, len(d.Scenarios), s.Name, s.Title),
			leftHead:  "without the sidecar, " + d.Backend,
			rightHead: "with the sidecar, " + d.Sidecar,
			left:      &Transcript{OpenWebUI: s.OpenWebUI},
			right:     &Transcript{OpenWebUI: s.OpenWebUI},
		}
		if err := d.read(ctx, p); err != nil {
			return err
		}
		wrong := p.check()
		if len(wrong) == 0 {
			continue
		}
		failed = append(failed, s.Name)
		for _, fault := range wrong {
			if err := d.print(bad, "WRONG, "+fault); err != nil {
				return err
			}
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d scenarios are %w: %s",
			len(failed), len(d.Scenarios), ErrNotRepaired, strings.Join(failed, ", "))
	}
	verdict := "As it should be"
	if n := len(d.Scenarios); n != 1 {
		verdict = fmt.Sprintf("All %d as they should be", n)
	}
	return d.print(good, verdict+": clean text, every tool ended, and an end that says what happened.")
}

// read reads both sides at once and prints them.
func (d *Demo) read(ctx context.Context, p play) error {
	limited, cancel := context.WithTimeout(ctx, scale(p.scenario.Duration(), d.Speed)+patience)
	defer cancel()

	var mu sync.Mutex // over both transcripts and the picture
	picture := painter{w: d.Out, height: d.Screen.Height}
	live := d.Screen.ANSI && !d.Raw
	var drawErr error
	update := func(change func()) {
		mu.Lock()
		defer mu.Unlock()
		change()
		if live && drawErr == nil && ctx.Err() == nil {
			drawErr = picture.draw(p.picture(d.Screen), false)
		}
	}

	var sides sync.WaitGroup
	side := func(addr string, t *Transcript) {
		err := readStream(limited, "http://"+addr, p.scenario.Name, func(f Frame) {
			now := time.Now()
			update(func() { t.Add(f, now) })
		})
		update(func() { t.End(err) })
	}
	sides.Go(func() { side(d.Backend, p.left) })
	sides.Go(func() { side(d.Sidecar, p.right) })
	sides.Wait()

	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case drawErr != nil:
		return drawErr
	case d.Raw:
		return d.printRaw(p)
	case live:
		return picture.draw(append(p.picture(d.Screen), ""), true)
	}
	return d.write(append(p.picture(d.Screen), ""))
}

// printRaw prints the frames of both sides, one side after the other.
func (d *Demo) printRaw(p play) error {
	rows := d.Screen.rows(bold.Render("== " + p.title))
	for _, side := range []struct {
		head string
		t    *Transcript
	}{{p.leftHead, p.left}, {p.rightHead, p.right}} {
		var stream strings.Builder
		for _, f := range side.t.Frames {
			stream.Write(f.Raw)
		}
		end := "-- end of the stream"
		if side.t.Broken != nil {
			end = "-- network error: " + describeBreak(side.t.Broken)
		}
		rows = slices.Concat(rows, []string{""}, d.Screen.rows(bold.Render("-- "+side.head)),
			[]string{strings.TrimRight(stream.String(), "\n")}, d.Screen.rows(dim.Render(end)))
	}
	return d.write(append(rows, ""))
}

// print prints a text over the whole width.
func (d *Demo) print(style lipgloss.Style, text string) error {
	return d.write(d.Screen.rows(style.Render(text)))
}

func (d *Demo) write(rows []string) error {
	_, err := io.WriteString(d.Out, strings.Join(rows, "\n")+"\n")
	return err
}
