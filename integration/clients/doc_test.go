package clients

import (
	"flag"
	"regexp"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
)

// updateDocs writes the tables of docs/clients.md instead of comparing them.
var updateDocs = flag.Bool("update", false, "write the tables of docs/clients.md")

var clientsDoc = harness.Path("docs/clients.md")

// generated is a table between two comments of the document.
var generated = regexp.MustCompile(`(?s)(<!-- generated: ([a-z ]+) -->\n)(.*?)(<!-- end -->)`)

// checkClientsDoc compares the tables of the document with what the clients did.
// Rows of clients that could not be tried are not looked at.
func checkClientsDoc(t *testing.T, tried []*trial) {
	page := harness.ReadFile(t, clientsDoc)
	whole := len(tried) == len(realClients)
	if *updateDocs && !whole {
		t.Fatalf("only %d of %d clients could be tried: the tables need them all", len(tried), len(realClients))
	}
	seen := 0
	updated := generated.ReplaceAllStringFunc(page, func(block string) string {
		m := generated.FindStringSubmatch(block)
		table := tables[m[2]]
		if table == nil {
			t.Errorf("no table is called %q", m[2])
			return block
		}
		seen++
		want := table(tried)
		if !*updateDocs {
			compareTable(t, m[2], strings.TrimSpace(m[3]), want, whole)
		}
		return m[1] + strings.Join(want, "\n") + "\n" + m[4]
	})
	if seen != len(tables) {
		t.Errorf("%d of %d tables are in %s", seen, len(tables), clientsDoc)
	}
	if *updateDocs {
		harness.WriteFile(t, clientsDoc, []byte(updated))
	}
}

// compareTable wants every line of want in the document, and no others if want
// is the whole table.
func compareTable(t *testing.T, name, have string, want []string, whole bool) {
	t.Helper()
	lines := map[string]bool{}
	for l := range strings.SplitSeq(have, "\n") {
		lines[l] = true
	}
	for _, l := range want {
		if !lines[l] {
			t.Errorf("table %q of %s lacks\n%s\n-update writes it", name, clientsDoc, l)
		}
	}
	if whole && len(lines) != len(want) {
		t.Errorf("table %q of %s has %d lines, want %d", name, clientsDoc, len(lines), len(want))
	}
}
