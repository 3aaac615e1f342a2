package clients

import (
	"slices"
	"strings"
	"testing"
)

// row is a line of a table.
func row(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |" }

// head is the first two lines of a table.
func head(cells ...string) []string {
	return []string{row(cells...), "|" + strings.Repeat("---|", len(cells))}
}

// versioned is a client with its version, as the first cell of a row.
func versioned(client, version string) string { return client + " (" + version + ")" }

// between separates the clients in the first cell of a merged row.
const between = "; "

// merged returns a table of docs/clients.md in which one row, where the first of them was, stands for all
// clients whose other cells are the same.
func merged(lines []string) []string {
	var all []string
	at := map[string]int{}
	for _, line := range lines {
		client, cells := cutClient(line)
		i, again := at[cells]
		if !again {
			at[cells] = len(all)
			all = append(all, line)
			continue
		}
		clients, _ := cutClient(all[i])
		all[i] = "| " + clients + between + client + cells
	}
	return all
}

// unmerged returns the lines of a table with a row for each client.
func unmerged(table string) []string {
	var all []string
	for line := range strings.SplitSeq(strings.TrimSpace(table), "\n") {
		clients, cells := cutClient(line)
		if cells == "" {
			all = append(all, line)
			continue
		}
		for client := range strings.SplitSeq(clients, between) {
			all = append(all, "| "+client+cells)
		}
	}
	return all
}

// cutClient returns the first cell of a row, and the rest of the row.
func cutClient(line string) (client, cells string) {
	client, rest, found := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
	if !found {
		return line, ""
	}
	return client, " | " + rest
}

// TestMergedTables: a table whose rows are merged says the same.
func TestMergedTables(t *testing.T) {
	whole := append(head("client", "plain", "killed"), row("a", "ok", "error"), row("b, old", "ok", "breaks"), row("c", "ok", "error"))
	short := merged(whole)
	if want := append(head("client", "plain", "killed"), row("a; c", "ok", "error"), row("b, old", "ok", "breaks")); !slices.Equal(short, want) {
		t.Errorf("merged: %q", short)
	}
	again := unmerged(strings.Join(short, "\n") + "\n")
	slices.Sort(again)
	slices.Sort(whole)
	if !slices.Equal(again, whole) {
		t.Errorf("unmerged: %q", again)
	}
}
