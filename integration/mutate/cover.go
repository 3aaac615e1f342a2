//go:build unix

package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// blocks are the blocks of a cover profile, by their file: its package's path and name.
type blocks map[string][]block

type block struct {
	fromLine, fromColumn, toLine, toColumn int
	run                                    bool
}

func readBlocks(profile string) (blocks, error) {
	text, err := os.ReadFile(profile)
	if err != nil {
		return nil, err
	}
	all := blocks{}
	for line := range strings.Lines(string(text)) {
		at := strings.LastIndexByte(line, ':')
		var b block
		var statements, count int
		if _, err := fmt.Sscanf(line[at+1:], "%d.%d,%d.%d %d %d", &b.fromLine, &b.fromColumn, &b.toLine, &b.toColumn, &statements, &count); err != nil {
			continue // the mode
		}
		b.run = count > 0
		name := strings.Clone(line[:at]) // the text is not kept
		all[name] = append(all[name], b)
	}
	return all, nil
}

// has reports whether the place of m has been run, or may have been: what is in no
// block, such as a case's condition, counts with the file.
func (all blocks) has(m *mutant) bool {
	in, some := false, false
	for _, b := range all[path.Join(m.in.path, filepath.Base(m.file))] {
		some = some || b.run
		if !b.contains(m.pos.Line, m.pos.Column) {
			continue
		}
		if in = true; b.run {
			return true
		}
	}
	return !in && some
}

func (b *block) contains(line, column int) bool {
	return (line > b.fromLine || line == b.fromLine && column >= b.fromColumn) &&
		(line < b.toLine || line == b.toLine && column <= b.toColumn)
}
