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
	"strings"
	"sync"
	"time"
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
	Clock            Clock  // stamps what arrives; nil means the machine's clock
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
		var rows []string
		for _, fault := range wrong {
			rows = append(rows, d.Screen.full(line{"WRONG, " + fault, bad})...)
		}
		if err := d.print(append(rows, "")); err != nil {
			return err
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
	return d.print(d.Screen.full(line{verdict + ": clean text, every tool ended, and an end that says what happened.", good}))
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
			now := orSystem(d.Clock).Now()
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
	return d.print(append(p.picture(d.Screen), ""))
}

// printRaw prints the frames of both sides, one side after the other.
func (d *Demo) printRaw(p play) error {
	rows := []string{d.Screen.paint("== "+p.title, bold), ""}
	for _, side := range []struct {
		head string
		t    *Transcript
	}{{p.leftHead, p.left}, {p.rightHead, p.right}} {
		var stream strings.Builder
		for _, f := range side.t.Frames {
			stream.Write(f.Raw)
		}
		rows = append(rows, d.Screen.paint("-- "+side.head, bold), strings.TrimRight(stream.String(), "\n"))
		end := "-- end of the stream"
		if side.t.Broken != nil {
			end = "-- network error: " + describeBreak(side.t.Broken)
		}
		rows = append(rows, d.Screen.paint(end, dim), "")
	}
	return d.print(rows)
}

func (d *Demo) print(rows []string) error {
	_, err := io.WriteString(d.Out, strings.Join(rows, "\n")+"\n")
	return err
}
