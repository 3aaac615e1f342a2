package lint

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "record that the pictures show what their sources say now")

// pictures has each picture of docs/: how it is made, and what it shows.
var pictures = map[string]struct{ made, sources string }{
	"before-after.gif": {
		"HERMES_OPENWEBUI=install HERMES_FILM=$PWD/docs/before-after.gif go -C integration test -count=1 -run TestOpenWebUIFilm ./clients",
		"integration/clients/testdata/film.* integration/clients/openwebui_requirements.txt",
	},
	"demo-page.png": {
		"HERMES_SCREENSHOT=$PWD/docs/demo-page.png go -C integration test -count=1 -run TestPageScreenshot ./demo",
		"demo/page/* demo/recordings/*.json demo/recordings/*/* demo/testdata/*.golden",
	},
}

// TestPicturesAreUpToDate: no picture is older than what it shows, and each is of use.
func TestPicturesAreUpToDate(t *testing.T) {
	const sums = "lint/testdata/pictures.sum"
	var now strings.Builder
	for _, name := range slices.Sorted(maps.Keys(pictures)) {
		fmt.Fprintf(&now, "%s  %s\n", sumOf(t, pictures[name].sources), name)
	}
	if *update {
		if err := os.WriteFile(sums, []byte(now.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	recorded, err := os.ReadFile(sums)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(now.String()) {
		if !strings.Contains(string(recorded), line) {
			name := strings.TrimSpace(line[64:])
			t.Errorf("docs/%s is out of date. Make it anew:\n\t%s\nand then run:\n\tgo test ./lint -run TestPictures -update", name, pictures[name].made)
		}
	}
	var have []string
	for _, pattern := range []string{"docs/*.png", "docs/*.gif", "docs/*/*.png", "docs/*/*.gif"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			have = append(have, filepath.Base(f))
			if info, err := os.Stat(f); err != nil || info.Size() > 400<<10 {
				t.Errorf("%s is larger than 400 KiB (%v)", f, err)
			}
		}
	}
	slices.Sort(have)
	if want := slices.Sorted(maps.Keys(pictures)); !slices.Equal(have, want) {
		t.Errorf("the pictures of docs/ are %q, want %q", have, want)
	}
}

// sumOf returns the SHA-256 sum of files, which patterns name.
func sumOf(t *testing.T, patterns string) string {
	t.Helper()
	h := sha256.New()
	for pattern := range strings.FieldsSeq(patterns) {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no file is %s (%v)", pattern, err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(h, "%s %d\n", filepath.ToSlash(f), len(b))
			h.Write(b)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
