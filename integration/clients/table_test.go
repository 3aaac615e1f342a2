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

// between separates the clients in the first cell of a merged row, and the titles of a merged column.
const between = "; "

// merged returns a table of docs/clients.md in which one row, where the first of them was, stands for all
// clients whose other cells are the same, and one column for neighbours whose cells are the same.
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
	return narrowed(all)
}

// narrowed merges neighbouring columns, but for the first.
func narrowed(lines []string) []string {
	titles, rows := cellsOf(lines)
	for i := len(titles) - 1; i > 1; i-- {
		if slices.ContainsFunc(rows, func(cells []string) bool { return cells[i] != cells[i-1] }) {
			continue
		}
		titles[i-1] += between + titles[i]
		titles = slices.Delete(titles, i, i+1)
		for r := range rows {
			rows[r] = slices.Delete(rows[r], i, i+1)
		}
	}
	return tableOf(titles, rows)
}

// unmerged returns the lines of a table with a row for each client and a column for each title.
func unmerged(table string) []string {
	titles, rows := cellsOf(strings.Split(strings.TrimSpace(table), "\n"))
	var wide []string
	for _, title := range titles {
		wide = append(wide, strings.Split(title, between)...)
	}
	var all [][]string
	for _, cells := range rows {
		var each []string
		for i, title := range titles {
			each = append(each, slices.Repeat(cells[i:i+1], 1+strings.Count(title, between))...)
		}
		for client := range strings.SplitSeq(cells[0], between) {
			all = append(all, append([]string{client}, each[1:]...))
		}
	}
	return tableOf(wide, all)
}

// cellsOf returns the cells of a table.
func cellsOf(lines []string) (titles []string, rows [][]string) {
	for i, line := range lines {
		if i != 1 { // the line below the titles
			rows = append(rows, strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "| "), " |"), " | "))
		}
	}
	return rows[0], rows[1:]
}

// tableOf returns the lines of a table.
func tableOf(titles []string, rows [][]string) []string {
	lines := head(titles...)
	for _, cells := range rows {
		lines = append(lines, row(cells...))
	}
	return lines
}

// cutClient returns the first cell of a row, and the rest of the row.
func cutClient(line string) (client, cells string) {
	client, rest, found := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
	if !found {
		return line, ""
	}
	return client, " | " + rest
}

// TestMergedTables: a table whose rows and columns are merged says the same.
func TestMergedTables(t *testing.T) {
	whole := append(head("client", "plain", "one tool", "killed"),
		row("a", "ok", "ok", "error"), row("b, old", "ok", "ok", "breaks; hangs"), row("c", "ok", "ok", "error"))
	short := merged(whole)
	if want := append(head("client", "plain; one tool", "killed"), row("a; c", "ok", "error"), row("b, old", "ok", "breaks; hangs")); !slices.Equal(short, want) {
		t.Errorf("merged: %q", short)
	}
	again := unmerged(strings.Join(short, "\n") + "\n")
	slices.Sort(again)
	slices.Sort(whole)
	if !slices.Equal(again, whole) {
		t.Errorf("unmerged: %q", again)
	}
}
