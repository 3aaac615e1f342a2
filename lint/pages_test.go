package lint

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	fenced   = regexp.MustCompile("(?ms)^```.*?^```$")
	indented = regexp.MustCompile(`(?m)^(?: {4}|\t).*$`)
	inline   = regexp.MustCompile("(``+|`)[^`].*?(``+|`)")
)

// TestLinksLead: what a page of the repository links to within it is there, and so is the
// heading. Code is no link.
func TestLinksLead(t *testing.T) {
	pages := texts(t, ".md")
	for name, text := range pages {
		pages[name] = fenced.ReplaceAllString(text, "")
	}
	links := 0
	for page, text := range pages {
		for _, m := range link.FindAllStringSubmatch(inline.ReplaceAllString(indented.ReplaceAllString(text, ""), ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			links++
			file, anchor, _ := strings.Cut(m[1], "#")
			to := page
			if file != "" {
				to = path.Join(path.Dir(page), file)
			}
			if _, err := os.Stat(filepath.FromSlash(to)); err != nil || strings.HasPrefix(file, "/") {
				t.Errorf("%s: the link %s leads nowhere: %v", page, m[1], err)
			} else if anchor != "" && !anchors(pages[to])[anchor] {
				t.Errorf("%s: %s has no heading #%s", page, to, anchor)
			}
		}
	}
	if len(pages) < 20 || links < 50 {
		t.Errorf("%d pages with %d links", len(pages), links)
	}
}

// texts returns the files of the repository with one of the endings, by their names.
func texts(t *testing.T, endings ...string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || name == "site" || len(d.Name()) > 1 && d.Name()[0] == '.' && name != ".github"):
			return filepath.SkipDir
		case d.IsDir() || !slices.ContainsFunc(endings, func(end string) bool { return strings.HasSuffix(name, end) }):
			return nil
		}
		text, err := os.ReadFile(name)
		all[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var curl = regexp.MustCompile(`(?m)\bcurl (?:.*\\\n)*.*$`)

// TestCurlSendsJSON: a command that sends a body says that it is JSON. curl says otherwise by itself, and
// hermes_resume and replies to approvals do nothing then.
func TestCurlSendsJSON(t *testing.T) {
	n := 0
	for name, text := range texts(t, ".md", ".txt", ".yaml") {
		for _, command := range curl.FindAllString(text, -1) {
			if !strings.Contains(command, " -d ") {
				continue
			}
			n++
			if !strings.Contains(strings.ToLower(command), "content-type: application/json") {
				t.Errorf("%s: no Content-Type: application/json in %s", name, command)
			}
		}
	}
	if n < 8 {
		t.Errorf("%d commands send a body", n)
	}
}

// TestPagesNameTheCaddyThatBuilds: no page promises an older Caddy than go.mod requires, with which no build succeeds.
func TestPagesNameTheCaddyThatBuilds(t *testing.T) {
	all := texts(t, ".md", "go.mod")
	required := regexp.MustCompile(`caddyserver/caddy/v2 v(\S+)`).FindStringSubmatch(all["go.mod"])[1]
	for page, promise := range map[string]string{
		"CHANGELOG.md":      "needs Caddy " + required + " or newer",
		"docs/upgrading.md": "the oldest that works: " + required + " |",
		"xcaddy.md":         "| Caddy | " + required + " or newer",
	} {
		if !strings.Contains(all[page], promise) {
			t.Errorf("%s does not say %q", page, promise)
		}
	}
}

// anchors returns what a link to a heading of the page ends in: its text in lower case,
// with a dash for each space, and without punctuation.
func anchors(page string) map[string]bool {
	all := make(map[string]bool)
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		all[strings.Map(func(r rune) rune {
			switch {
			case r == ' ' || r == '-':
				return '-'
			case r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])] = true
	}
	return all
}

// TestReadmeIsShort: what is longer has a page of its own in docs/.
func TestReadmeIsShort(t *testing.T) {
	if n := strings.Count(read(t, "README.md"), "\n"); n > 100 {
		t.Errorf("README.md has %d lines, want at most 100", n)
	}
}

// maxWords is what a reader of the pages in docs has to read at most, and maxResumeLines how long the page of
// hermes_resume may be: whoever adds a paragraph makes another one shorter. docs/contract.md is not counted.
const (
	maxWords       = 30_000
	maxResumeLines = 250
)

// TestPagesAreShort counts words as wc -w does.
func TestPagesAreShort(t *testing.T) {
	words := 0
	for name, text := range texts(t, ".md") {
		if strings.HasPrefix(name, "docs/") && name != "docs/contract.md" {
			words += len(strings.Fields(text))
		}
	}
	if words < maxWords/2 || words > maxWords {
		t.Errorf("the pages in docs have %d words, want at most %d", words, maxWords)
	}
	if n := strings.Count(read(t, "docs/resume.md"), "\n"); n > maxResumeLines {
		t.Errorf("docs/resume.md has %d lines, want at most %d", n, maxResumeLines)
	}
}
