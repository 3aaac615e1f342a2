package doctor

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// The columns of the text form.
const (
	columns    = 100
	levelWidth = 6  // of the column with the level
	checkWidth = 19 // of the column with the check
)

// WriteText writes the report for people.
func (r Report) WriteText(w io.Writer) error {
	var b strings.Builder
	for i, a := range r.Agents {
		if i > 0 {
			b.WriteString("\n")
		}
		a.text(&b)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// text writes the agent for people.
func (a Agent) text(b *strings.Builder) {
	fmt.Fprintf(b, "%s (%s)\n\n", a.Address, a.NamedBy)
	for _, f := range a.Findings {
		head := fmt.Sprintf("%-*s%-*s", levelWidth, f.Level, checkWidth, f.Check)
		wrap(b, head, f.Says)
		if f.Why != "" {
			wrap(b, strings.Repeat(" ", levelWidth+checkWidth), f.Why)
		}
	}
	if len(a.Repairs) > 0 {
		b.WriteString("\nWhat the sidecar repairs there\n\n")
		for _, r := range a.Repairs {
			wrap(b, "  - ", r.Upstream+" ("+r.Releases+")")
			wrap(b, "    ", "→ "+r.Client)
		}
	}
	if len(a.Options) > 0 {
		b.WriteString("\nOptions that may fit\n\n")
		for _, o := range a.Options {
			wrap(b, "  - ", o.Option+": "+o.When)
			wrap(b, "    ", o.Why)
		}
	}
}

// wrap writes words in lines of at most columns, the first one behind head and the
// others below it.
func wrap(b *strings.Builder, head, words string) {
	b.WriteString(head)
	at := utf8.RuneCountInString(head)
	indent, begun := strings.Repeat(" ", at), false
	for word := range strings.FieldsSeq(words) {
		n := utf8.RuneCountInString(word)
		switch {
		case begun && at+1+n > columns:
			b.WriteString("\n" + indent)
			at = len(indent)
		case begun:
			b.WriteString(" ")
			at++
		}
		b.WriteString(word)
		at, begun = at+n, true
	}
	b.WriteString("\n")
}
