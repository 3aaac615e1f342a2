package doctor

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A release is a release of Hermes as a number, so that releases compare: 0.20.3 is
// 20_003, and the last 0.20, whatever its patch number is, is 20_999.
type release int

const (
	oldest release = 5_000   // the first known one
	newest release = 999_999 // any future one

	newInG4  release = 21_004 // the first with hermes.status and reasoning_content
	newInG5  release = 22_000 // the first with approvals in chats
	lastRead release = 22_999 // the last for which it is known which members of a request it ignores
)

// version matches 0.20.3, v0.9, 0.21.0rc1 and 0.18.2.dev3.
var version = regexp.MustCompile(`^v?(\d+)\.(\d{1,3})(?:[^.\d][^.]*)?(?:\.(\d{1,3})(?:\D.*)?)?$`)

// parseRelease reads a version. It returns false if s is none, such as dev.
func parseRelease(s string) (r release, ok bool) {
	m := version.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	if m[1] != "0" {
		return newest, true
	}
	n, _ := strconv.Atoi(m[2])
	patch, _ := strconv.Atoi(m[3]) // 0 for none
	return release(n*1000 + patch), true
}

// String returns the release as Hermes names it, without a patch number that is 0.
func (r release) String() string {
	if patch := r % 1000; patch != 0 && patch != 999 {
		return fmt.Sprintf("0.%d.%d", r/1000, patch)
	}
	return fmt.Sprintf("0.%d", r/1000)
}

// A span is a range of releases, both ends included.
type span struct{ from, to release }

// anyRelease are all releases.
var anyRelease = span{oldest, newest}

func (s span) meets(o span) bool { return s.from <= o.to && o.from <= s.to }

func (s span) String() string {
	from, to := s.from.String(), s.to.String()
	switch {
	case s == anyRelease:
		return "every release"
	case s.from >= newest:
		return "newer than any known release"
	case s.from <= oldest:
		return "up to " + to
	case s.to >= newest:
		return from + " and newer"
	case from == to:
		return from
	case s.from%1000 != 0 && s.to == s.from/1000*1000+999:
		return from + " and later " + to
	case s.to/1000 == s.from/1000+1:
		return from + " and " + to
	}
	return from + " to " + to
}

// A generation is a range of releases whose streams are of one kind.
type generation struct {
	name  string
	span  span
	tools string // how they show tools
}

// generations has all generations, with the names that docs/contract.md gives them.
var generations = []generation{
	{"G-1", span{oldest, 6_999}, "it shows no tools in a stream"},
	{"G0", span{7_000, 8_999}, "tools are markers in the text, without an end"},
	{"G1", span{9_000, 11_999}, "tools are events without an id and without an end"},
	{"G2", span{12_000, 17_999}, "tools are events with a start and an end, and a crash says stop"},
	{"G3", span{18_000, newInG4 - 1}, "tools are events with a start and an end, and a crash says error"},
	{"G4", span{newInG4, 21_999}, "like G3, with reasoning and status reports in the stream"},
	{"G5", span{newInG5, newest}, "like G4, and chats ask for approvals and send text that was not streamed"},
}

// An evidence is something that only some releases do.
type evidence struct {
	span
	what string // names it, such as "/health names no version"
}

// narrow returns the releases that the agent may be according to the evidence so far, what has narrowed
// them, and evidence that none of them gives, "" for none.
func (e *examination) narrow() (s span, because []string, contradicts string) {
	s = anyRelease
	for _, of := range e.evidence {
		if !s.meets(of.span) {
			contradicts = of.what
		} else if both := (span{max(s.from, of.from), min(s.to, of.to)}); both != s {
			s, because = both, append(because, of.what)
		}
	}
	return s, because, contradicts
}

// releases returns the releases that the agent may be, and adds findings about them and their generations.
func (e *examination) releases() span {
	s, because, contradicts := e.narrow()
	if because == nil {
		e.find("generation", Info, "nothing shows which release of Hermes it is",
			"An answer that uses a tool reveals most: see --recording.")
		return s
	}
	e.Releases = s.String()
	var tools []string
	for _, g := range generations {
		if g.span.meets(s) {
			e.Generations = append(e.Generations, g.name)
			tools = append(tools, g.name+": "+g.tools)
		}
	}
	names := strings.Join(e.Generations, " or ")
	e.find("generation", Info, words(fmt.Sprintf("%s, Hermes %s: %s", names, s, strings.Join(because, "; "))),
		words(strings.Join(tools, ". ")+"."))
	if contradicts != "" {
		e.find("generation", Warn, words("it also does what these releases do not: "+contradicts),
			"Something in between changes the stream, or this is a fork of Hermes.")
	}
	return s
}
