package clients

import (
	"fmt"
	"slices"
	"strings"
)

// tables are those of docs/clients.md, by the names that their comments have.
var tables = map[string]func(tried []*trial) []string{
	"default": defaultTable,
	"seen":    seenTable,
	"options": optionsTable,
	"direct":  directTable,
}

// row is a line of a table.
func row(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |" }

// head is the first two lines of a table.
func head(cells ...string) []string {
	return []string{row(cells...), "|" + strings.Repeat("---|", len(cells))}
}

// titles are the columns of all scenarios.
func titles() []string {
	var all []string
	for _, s := range scenarios {
		all = append(all, s.title)
	}
	return all
}

// defaultTable is what clients make of the sidecar as it is.
func defaultTable(tried []*trial) []string {
	lines := head(append(append([]string{"client", "version"}, titles()...), "refused", "needs")...)
	for _, r := range tried {
		cells := []string{r.client.name, r.d.version}
		for _, title := range titles() {
			cells = append(cells, r.cell(byDefault, title))
		}
		lines = append(lines, row(append(cells, r.refusal[byDefault].cell, r.needs())...))
	}
	return lines
}

// directTable is the same without a sidecar.
func directTable(tried []*trial) []string {
	lines := head(append(append([]string{"client"}, titles()...), "refused")...)
	for _, r := range tried {
		cells := []string{r.client.name}
		for _, title := range titles() {
			cells = append(cells, r.cell(direct, title))
		}
		lines = append(lines, row(append(cells, r.refusal[direct].cell)...))
	}
	return lines
}

// seenTable is how programs see what is no text.
func seenTable(tried []*trial) []string {
	lines := head("client", "an error in the stream", "the 502 when Hermes is not there", "requests until then",
		"the agent's runs when it is lost", "tool events", "reasoning")
	for _, r := range tried {
		refused := r.refusal[byDefault]
		lines = append(lines, row(r.client.name, r.errorsSeen(), refused.how, fmt.Sprint(refused.requests), r.lossesSeen(), r.toolsSeen(), r.reasoningSeen()))
	}
	return lines
}

// optionsTable is what the forms of tool events and of keepalives do to clients.
func optionsTable(tried []*trial) []string {
	lines := head("client", "`progress envelope`", "`unnamed`", "`off`", "`comment`", "`cards on`", "an approval with `unnamed`", "with `off`",
		"a keepalive before the first chunk", "`keepalive_form chunk`", "`keepalive_form comment`")
	for _, r := range tried {
		cells := []string{r.client.name}
		for _, v := range []string{byDefault, "unnamed", "off", "comment", "cards"} {
			var wrong []string
			for _, s := range scenarios {
				if c := r.cell(v, s.title); s.tools && c != "ok" && c != "error" && !slices.Contains(wrong, c) {
					wrong = append(wrong, c)
				}
			}
			if len(wrong) == 0 {
				wrong = []string{"ok"}
			}
			cells = append(cells, strings.Join(wrong, ", "))
		}
		for _, v := range []string{"unnamed", "off"} {
			cells = append(cells, r.cell(v, "approval"))
		}
		lines = append(lines, row(append(cells, r.cell(keepaliveChunk, silences[0].title),
			r.cell(keepaliveChunk, silences[1].title), r.cell(keepaliveComment, silences[1].title))...))
	}
	return lines
}

// cell is what became of a scenario, generations collapsed that are alike: "ok",
// or "G0: breaks; G1–G3: ok".
func (r *trial) cell(variant, title string) string {
	type group struct{ first, last, cell string }
	var groups []group
	for _, g := range generations {
		c := worst(r.cells[variant][title+" "+g.short])
		if n := len(groups); n > 0 && groups[n-1].cell == c {
			groups[n-1].last = g.short
			continue
		}
		groups = append(groups, group{g.short, g.short, c})
	}
	if len(groups) == 1 {
		return groups[0].cell
	}
	var parts []string
	for _, g := range groups {
		if g.first != g.last {
			g.first += "–" + g.last
		}
		parts = append(parts, g.first+": "+g.cell)
	}
	return strings.Join(parts, "; ")
}

// worst is the first cell that is not as it should be, or the first.
func worst(all []outcome) string {
	for _, o := range all {
		if !o.ok {
			return o.cell
		}
	}
	if len(all) == 0 {
		return "not tried"
	}
	return all[0].cell
}

// fine says that all is as it should be, in a variant.
func (r *trial) fine(variant string, keep func(s scenario) bool) bool {
	for _, s := range scenarios {
		for _, g := range generations {
			all := r.cells[variant][s.title+" "+g.short]
			if keep(s) && (len(all) == 0 || slices.ContainsFunc(all, func(o outcome) bool { return !o.ok })) {
				return false
			}
		}
	}
	return true
}

func anyScenario(scenario) bool { return true }

func withTools(s scenario) bool { return s.tools }

func withOptions(s scenario) bool { return s.tools || s.asks }

// needs are the options with which a client works that does not by default.
func (r *trial) needs() string {
	if r.fine(byDefault, anyScenario) {
		return "nothing"
	}
	var ways []string
	for _, v := range []string{"unnamed", "off"} {
		if r.fine(v, withOptions) {
			ways = append(ways, "`progress "+v+"`")
		}
	}
	if len(ways) == 0 {
		return "nothing helps"
	}
	return strings.Join(ways, " or ")
}

// best is the variant in which a client is used.
func (r *trial) best() string {
	if !r.fine(byDefault, anyScenario) && r.fine("unnamed", withOptions) {
		return "unnamed"
	}
	return byDefault
}

// errorsSeen are the ways in which errors in a stream are seen.
func (r *trial) errorsSeen() string {
	var ways []string
	for _, s := range scenarios {
		for _, g := range generations {
			for _, o := range r.cells[r.best()][s.title+" "+g.short] {
				if o.how != "" && !slices.Contains(ways, o.how) {
					ways = append(ways, o.how)
				}
			}
		}
	}
	return strings.Join(ways, "; ")
}

// toolsSeen reports whether a program sees the beginning and the end of a tool.
func (r *trial) toolsSeen() string {
	for _, g := range generations {
		for _, o := range r.cells[r.best()]["one tool "+g.short] {
			if !slices.Equal(o.seen.Tools, []string{"terminal running", "terminal completed"}) {
				return "no"
			}
		}
	}
	return "yes"
}

// reasoningSeen reports whether a program sees reasoning apart from the text.
func (r *trial) reasoningSeen() string {
	for _, o := range r.cells[byDefault]["reasoning G0"] {
		if o.seen.Reasoning != "" {
			return "yes"
		}
	}
	return "no"
}
