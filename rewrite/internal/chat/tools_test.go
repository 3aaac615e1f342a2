package chat

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
)

// step is what comes next: the start of a tool at a time in milliseconds, or something
// else by its name.
type step struct {
	id string
	at int
}

func TestTransitionsOfTools(t *testing.T) {
	for name, c := range map[string]struct {
		steps []step
		want  string // + a start, - an end, ! an interrupted end
	}{
		"a tool and text":                   {[]step{{"a?", 0}, {"text", 0}, {"end", 0}}, "+a -a inferred"},
		"in parallel":                       {[]step{{"a?", 0}, {"b?", 499}, {"text", 0}}, "+a +b -a inferred -b inferred"},
		"one after the other":               {[]step{{"a?", 0}, {"b?", 500}, {"end", 0}}, "+a -a inferred +b -b end"},
		"each within the window of another": {[]step{{"a?", 0}, {"b?", 400}, {"c?", 800}}, "+a +b +c"},
		"upstream says when it ends":        {[]step{{"a", 0}, {"text", 0}, {"b", 900}, {"-a", 0}}, "+a +b -a upstream"},
		"both kinds":                        {[]step{{"a", 0}, {"b?", 0}, {"text", 0}, {"fail", 0}}, "+a +b -b inferred !a end"},
		"a crash in two":                    {[]step{{"a", 0}, {"b?", 1}, {"fail", 0}}, "+a +b !a end !b end"},
	} {
		l := tools{size: func(*encode.Tool) int { return 0 }}
		var changes []encode.Transition
		for _, s := range c.steps {
			switch id, inferred := strings.CutSuffix(s.id, "?"); {
			case id == "text":
				changes = append(changes, l.inferEnds()...)
			case id == "end", id == "fail":
				changes = append(changes, l.endAll(id == "fail")...)
			case id[0] == '-':
				changes = append(changes, l.end(l.find(&encode.Tool{ID: id[1:]}), contract.SourceUpstream))
			default:
				start := encode.Transition{Tool: encode.Tool{Name: `"t"`, ID: id, Inferred: inferred}}
				changes = append(changes, l.start(start, time.UnixMilli(int64(1e12+s.at)), 500*time.Millisecond)...)
			}
		}
		var got []string
		for _, c := range changes {
			switch {
			case c.Interrupted:
				got = append(got, "!"+c.ID, string(c.Source))
			case c.Completed:
				got = append(got, "-"+c.ID, string(c.Source))
			default:
				got = append(got, "+"+c.ID)
			}
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestOpenToolsAreBounded(t *testing.T) {
	for _, c := range []struct {
		size, open int
	}{
		{0, contract.MaxOpenTools},
		{contract.MaxOpenBytes / contract.MaxOpenTools, contract.MaxOpenTools},
		{1 << 10, contract.MaxOpenBytes >> 10},
	} {
		l := tools{size: func(*encode.Tool) int { return c.size }}
		ended := 0
		for i := range 400 {
			start := encode.Transition{Tool: encode.Tool{Name: `"t"`, ID: fmt.Sprint(100 + i)}}
			ended += len(l.start(start, time.Time{}, time.Hour)) - 1
		}
		if len(l.open) != c.open || ended != 400-c.open || l.open[0].ID != fmt.Sprint(500-c.open) {
			t.Errorf("%+v: %d are open, %d have ended", c, len(l.open), ended)
		}
	}
}
