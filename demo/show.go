package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"charm.land/lipgloss/v2"
)

// patience is how much longer than its recording a stream may take before it
// counts as stuck.
const patience = 15 * time.Second

// errNotRepaired is the error of show for a stream that is not as it should be.
var errNotRepaired = errors.New("not as expected")

// show reads the scenarios from both addresses and prints them. It returns an error that wraps
// errNotRepaired when a stream was not as it should be, the error of ctx when that ended, and
// the error of the output.
func (c command) show(ctx context.Context, chosen []scenario) error {
	var failed []string
	for i, s := range chosen {
		p := play{
			scenario:  s,
			title:     fmt.Sprintf("%d/%d %s: %s", i+1, len(chosen), s.Name, s.Title),
			leftHead:  "without the sidecar, " + c.backendAddr,
			rightHead: "with the sidecar, " + c.sidecarAddr,
			left:      &transcript{openWebUI: s.OpenWebUI},
			right:     &transcript{openWebUI: s.OpenWebUI},
		}
		if err := c.read(ctx, p); err != nil {
			return err
		}
		wrong := p.check()
		if len(wrong) > 0 {
			failed = append(failed, s.Name)
		}
		for _, fault := range wrong {
			if err := c.print(bad, "WRONG, "+fault); err != nil {
				return err
			}
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d scenarios are %w: %s", len(failed), len(chosen), errNotRepaired, strings.Join(failed, ", "))
	}
	verdict := "As expected"
	if n := len(chosen); n != 1 {
		verdict = fmt.Sprintf("All %d as expected", n)
	}
	return c.print(good, verdict+": clean text, every tool ended, and an end that says what happened.")
}

// read reads both sides at once and prints them.
func (c command) read(ctx context.Context, p play) error {
	var duration time.Duration
	for _, step := range p.steps {
		duration += step.delay
	}
	limited, cancel := context.WithTimeout(ctx, scale(duration, c.speed)+patience)
	defer cancel()

	var mu sync.Mutex // guards both transcripts and the picture
	picture := painter{w: c.out, height: c.screen.rows}
	live := c.screen.ansi && !c.raw
	var drawErr error
	update := func(change func()) {
		mu.Lock()
		defer mu.Unlock()
		change()
		if live && drawErr == nil && ctx.Err() == nil {
			drawErr = picture.draw(p.picture(c.screen), false)
		}
	}

	var sides sync.WaitGroup
	for addr, t := range map[string]*transcript{c.backendAddr: p.left, c.sidecarAddr: p.right} {
		sides.Go(func() {
			err := ask(limited, addr, p.Name, func(raw []byte, whole bool) {
				update(func() { t.add(raw, whole, time.Now()) })
			})
			update(func() { t.end(err) })
		})
	}
	sides.Wait()

	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case drawErr != nil:
		return drawErr
	case c.raw:
		return c.printRaw(p)
	case live:
		return picture.draw(append(p.picture(c.screen), ""), true)
	}
	return c.write(append(p.picture(c.screen), "")...)
}

// printRaw prints the frames of both sides, one side after the other.
func (c command) printRaw(p play) error {
	side := func(head string, t *transcript) string {
		end := "-- end of the stream"
		if t.broken != nil {
			end = "-- network error: " + describeBreak(t.broken)
		}
		rows := append(c.screen.wrap(bold.Render("-- "+head)), strings.TrimRight(string(t.raw), "\n"))
		return strings.Join(append(rows, c.screen.wrap(dim.Render(end))...), "\n")
	}
	title := strings.Join(c.screen.wrap(bold.Render("== "+p.title)), "\n")
	return c.write(title, "", side(p.leftHead, p.left), "", side(p.rightHead, p.right), "")
}

// print prints a text over the whole width.
func (c command) print(style lipgloss.Style, text string) error {
	return c.write(c.screen.wrap(style.Render(text))...)
}

func (c command) write(rows ...string) error {
	_, err := io.WriteString(c.out, strings.Join(rows, "\n")+"\n")
	return err
}
