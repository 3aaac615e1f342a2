package configuration

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/schema"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// adapted reads the golden files of adapting: what comes of each Caddyfile, JSON or an
// error.
func adapted(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, dir := range []string{"adapt", "proxycommand"} {
		files, err := filepath.Glob(harness.Path("caddymodule/testdata/" + dir + "/*.*"))
		if err != nil || len(files) < 10 {
			t.Fatalf("%d golden files, %v", len(files), err)
		}
		for _, file := range files {
			_, want, ok := strings.Cut(harness.ReadFile(t, file), "\n----------\n")
			if !ok {
				t.Fatalf("%s has no line of dashes", file)
			}
			all[dir+"/"+filepath.Base(file)] = strings.TrimSpace(want)
		}
	}
	return all
}

// handlersIn returns the JSON objects in a value that are a handler of the name.
func handlersIn(value any, name string) (found []any) {
	switch v := value.(type) {
	case map[string]any:
		if v["handler"] == name {
			found = append(found, v)
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			found = append(found, handlersIn(v[key], name)...)
		}
	case []any:
		for _, of := range v {
			found = append(found, handlersIn(of, name)...)
		}
	}
	return found
}

// TestSchemaAllowsWhatAdapts: each configuration that a Caddyfile adapts to, and each of
// our handlers in it. With a member of another name in one of them it is refused.
func TestSchemaAllowsWhatAdapts(t *testing.T) {
	s := schema.Load(t, "config.json")
	whole, seen := s.At(t, ""), map[string]int{}
	for file, text := range adapted(t) {
		if !strings.HasPrefix(text, "{") {
			continue
		}
		config, err := schema.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := whole.Validate(config); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, name := range []string{"hermes", "hermes_resume", "hermes_queue"} {
			for _, h := range handlersIn(config, name) {
				seen[name]++
				if err := s.At(t, "/$defs/"+name).Validate(h); err != nil {
					t.Errorf("%s: %v", file, err)
				}
				h.(map[string]any)["progres"] = "off"
				if whole.Validate(config) == nil {
					t.Errorf("%s: a member progres of %s passes", file, name)
				}
				delete(h.(map[string]any), "progres")
			}
		}
	}
	if seen["hermes"] < 30 || seen["hermes_resume"] < 2 || seen["hermes_queue"] < 2 {
		t.Errorf("handlers %v", seen)
	}
}

// seedVariable repeats the values of a run of TestSchemaAgreesWithTheHandler.
const seedVariable = "HERMES_SCHEMA_SEED"

// A property is what the schema says of an option.
type property struct {
	Type    string
	Enum    []string
	Ref     string `json:"$ref"`
	Pattern string
	Default any
	Minimum int64
	Maximum int64
	// Required is not nil for a module.
	Required []string
}

// TestSchemaAgreesWithTheHandler: a value that the schema allows is one that the sidecar
// runs with, and the other way round, for each default, random values of each kind and what is near
// the bounds. Not tried is what no schema can say, and what it refuses on purpose:
//
//   - null, "" for a word or a directory, and 0 for a size or a number, which are the same
//     as none
//   - a number with an exponent or .0, which is an integer for a schema
//   - a duration of several parts below 1ms each, of several parts in days, of a part of a
//     nanosecond, or longer than 285 years
//   - an emoji of more than 16 characters that has at most 64 bytes, and one that differs
//     from another only in U+FE0F
//   - a member whose name is in another case
//   - a duration of always_for that is longer than detach
func TestSchemaAgreesWithTheHandler(t *testing.T) {
	seed := harness.Seed(t, seedVariable)
	s := schema.Load(t, "config.json")
	c := sidecarOf(t)
	for _, handler := range []string{"hermes", "hermes_resume", "hermes_queue"} {
		r := randomValues{rand.New(rand.NewPCG(seed, seed)), t.TempDir()}
		validator := s.At(t, "/$defs/"+handler)
		properties := propertiesOf(t, handler)
		var allowed []map[string]string // configurations, each of one value for each option
		bad := 0
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if properties[name].Required != nil { // a module, which has options of its own
				continue
			}
			good := 0
			for _, value := range r.of(properties[name]) {
				v, err := schema.Parse(fmt.Sprintf(`{"handler": %q, %q: %s}`, handler, name, value))
				if err != nil {
					t.Fatalf("%v in %s", err, value)
				}
				if validator.Validate(v) != nil {
					if bad++; c.refuses(map[string]string{name: value}, handler) == "" {
						t.Errorf("%s: the schema refuses %s: %s, the sidecar does not", handler, name, value)
					}
					continue
				}
				if good++; good > len(allowed) {
					allowed = append(allowed, map[string]string{})
				}
				allowed[good-1][name] = value
			}
			if good < 2 {
				t.Errorf("%s: %d values of %s pass", handler, good, name)
			}
		}
		for _, members := range allowed {
			if c.refuses(members, handler) == "" {
				continue
			}
			for name, value := range members {
				if says := c.refuses(map[string]string{name: value}, handler); says != "" {
					t.Errorf("%s: the schema allows %s: %s, the sidecar says %s", handler, name, value, says)
				}
			}
		}
		if bad < 10*len(properties) {
			t.Errorf("%s: %d values are refused", handler, bad)
		}
	}
}

// propertiesOf returns the options of a handler in the schema.
func propertiesOf(t *testing.T, handler string) map[string]property {
	t.Helper()
	var doc struct {
		Defs map[string]struct {
			Properties map[string]property
		} `json:"$defs"`
	}
	if err := json.Unmarshal([]byte(harness.ReadFile(t, harness.Path("docs/schema/config.json"))), &doc); err != nil {
		t.Fatal(err)
	}
	properties := doc.Defs[handler].Properties
	delete(properties, "handler")
	return properties
}

// A running sidecar is asked whether it would run with a configuration.
type running struct {
	t      *testing.T
	s      *sidecar.Process
	listen string
}

func sidecarOf(t *testing.T) *running {
	t.Helper()
	return &running{t, sidecar.Run(t, t.TempDir(), sidecar.Config{Admin: harness.FreePort(t)}), harness.FreePort(t)}
}

// refuses returns what the sidecar says against the members of a handler, "" if it runs
// with them.
func (r *running) refuses(members map[string]string, handler string) string {
	r.t.Helper()
	all := fmt.Sprintf(`{"handler": %q`, handler)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		all += fmt.Sprintf(`, %q: %s`, name, members[name])
	}
	config := fmt.Sprintf(`{"admin": {"listen": %q, "config": {"persist": false}}, "apps": {"http": {"servers": {"s": {"listen": [%q], "routes": [{"handle": [{"handler": "hermes_resume"}, %s}, {"handler": "hermes_approvals"}, {"handler": "static_response"}]}]}}}}}`,
		r.s.Admin, r.listen, all)
	return r.s.TryLoad("application/json", config)
}

// randomValues makes values of JSON.
type randomValues struct {
	*rand.Rand
	dir string
}

// of returns values of the kind that the property is of, good and bad ones.
func (r randomValues) of(p property) (values []string) {
	values = []string{`[]`, `["10s"]`, `"loud"`, `-1`, `1.5`, `"1e3"`}
	add := func(v ...string) { values = append(values, v...) }
	if p.Default != nil {
		standard, _ := json.Marshal(p.Default) // it was JSON
		add(string(standard))
	}
	switch {
	case p.Enum != nil:
		for _, w := range p.Enum {
			add(quoted(w), quoted(strings.ToUpper(w[:1])+w[1:]), quoted(w+" "), quoted(w[:len(w)-1]))
		}
		add("true", "1", "{}")
	case p.Type == "boolean":
		add("true", "false", `"true"`, `"on"`, "1", "0", `""`, "{}")
	case p.Type == "integer":
		most := p.Maximum
		if most == 0 {
			most = 1 << 31
		} else {
			add(fmt.Sprint(most+1), fmt.Sprint(most+1+r.Int64N(1<<50)))
		}
		add(fmt.Sprint(p.Minimum), fmt.Sprint(most), fmt.Sprint(-p.Minimum), "true", `"1MiB"`, "{}")
		if p.Minimum > 1 { // 0 is none
			add(fmt.Sprint(p.Minimum-1), fmt.Sprint(1+r.Int64N(p.Minimum-1)))
		}
		for range 6 {
			n := p.Minimum + r.Int64N(most-p.Minimum)
			add(fmt.Sprint(n), fmt.Sprint(-n), quoted(fmt.Sprint(n)))
		}
	case p.Ref == "#/$defs/duration":
		add("0", "1", "999999", "1000000", "1000001", "9000000000000000000", "9223372036854775808", "-1000000", "true", "{}",
			`""`, `"0"`, `"00"`, `"-0"`, `"+0"`, `"-0s"`, `"off"`, `"10"`, `"-1s"`, `"1d"`, `"1.d"`, `".5h"`, `"."`, `".s"`, `"1h "`, `" 1h"`, `"+1h"`, `"++1h"`, `"1S"`, `"1min"`, `"1e3s"`, `"1h1"`)
		for range 8 {
			add(fmt.Sprint(r.Int64N(1<<r.IntN(60)+1)), quoted(r.duration()), quoted(r.duration()))
		}
	case p.Ref == "#/$defs/tools":
		add("{}", `"🛰️ satellite"`, `{"🛰️": ["x"]}`, `{"🛰️": 5}`, quoted2(strings.Repeat("🛰", 16), "x"), quoted2(strings.Repeat("🛰", 17), "x"), quoted2("👩🏻‍❤️‍💋‍👩🏼", "x"))
		for range 40 {
			add(quoted2(r.text("🛰", "é", "a", "/", "\u200d", "\u3000", "☎", "`", " ", "\u00a0", "\u0085", "\t", "\u2028", "\\", "\""), r.text("a", "_", " ", "é", "\u00a0", "\n", "tool", "🛰", "\u2003")))
		}
	case p.Ref == "#/$defs/approvals":
		add("{}", "true", `"reply"`, `{"reply": true}`, `{"link": "https://a.example/approve", "text": true}`, `{"link": "http://127.0.0.1:8080/", "reply": true, "by": "{http.auth.user.id}"}`,
			`{"link": "a.example"}`, `{"link": "ftp://a.example"}`, `{"link": "https://a.example/?a=b"}`, `{"link": "https://a.example/#a"}`, `{"link": "https://u:p@a.example"}`, `{"link": 5}`,
			`{"text": true}`, `{"text": true, "reply": true}`, `{"reply": false}`, `{"link": "https://[::1]"}`, `{"reply": "on"}`, `{"by": "{a}"}`, `{"reply": true, "by": "alice"}`, `{"links": "https://a.example"}`)
	case p.Pattern != "": // a text with placeholders
		add(`"{http.auth.user.id}"`, `"a {b} c"`, `"{}"`, `"alice"`, `"}{"`, `"{"`, `"{a"`, `"}{}"`, "5", "true", "{}", `["{a}"]`)
	case p.Ref == "#/$defs/identity":
		add("{}", "true", `"{a}"`, `{"header": "{http.auth.user.id}"}`, `{"session": "a.{b}", "prompt": "{c}", "header": "{d}"}`, `{"header": "alice"}`, `{"prompt": "}{"}`, `{"session": 5}`,
			`{"header": "{a}", "session": "alice"}`, `{"by": "{a}"}`, `{"header": ["{a}"]}`)
	case p.Type == "array":
		add(`["{http.request.uuid}"]`, `["a", "{b}c", ""]`, `["a"]`, `[""]`, `["}{"]`, `[5]`, `["{a}", 5]`, `"{a}"`, "{}", "true")
	case p.Type == "object":
		add("{}", `{"chat": "20s"}`, `{"sessions": "10m", "runs": 0, "responses": 1000000}`, `{"chat": 1}`, `{"chats": "20s"}`, `{"chat": true}`, `{"": "20s"}`, `{"Chat": "20s"}`, "true")
	default:
		add(quoted(r.dir), quoted(r.dir+"/below"), "5", "true", "{}")
		values = slices.DeleteFunc(values, func(v string) bool { return v == `"loud"` || v == `"1e3"` }) // directories that would be made
	}
	return values
}

// duration returns a duration, or what looks like one.
func (r randomValues) duration() string {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	parts := 1 + r.IntN(3)
	text := pick("", "", "", "", "+", "-")
	for range parts {
		number := pick("0", "1", "5", "10", "007", "1.5", "0.5", ".5", "2.", "0.001", "999", "1000", "86400", "", "1..2", ".")
		units := []string{"s", "m", "h", "d", "ms", "w", "S", " s", ""}
		if parts == 1 {
			units = append(units, "ns", "us", "µs", "μs")
		}
		if strings.Contains(text, "d") { // of several, Caddy reads some wrong
			units = slices.DeleteFunc(units, func(u string) bool { return u == "d" })
		}
		unit := pick(units...)
		if unit == "ms" && parts > 1 && strings.Contains(number, ".") {
			number = "3" // with others below 1ms it may be more than that
		}
		if unit == "ns" && strings.Contains(number, ".") { // that part is no time at all
			number = "7"
		}
		text += number + unit
	}
	return text
}

// text returns up to six of the pieces in a row.
func (r randomValues) text(pieces ...string) string {
	text := ""
	for range r.IntN(7) {
		text += pieces[r.IntN(min(len(pieces), 1+r.IntN(len(pieces))))] // rather the first ones
	}
	return text
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func quoted2(key, value string) string { return "{" + quoted(key) + ": " + quoted(value) + "}" }

// toolsVariable says that the programs of docs/schemas.md must be there.
const toolsVariable = "HERMES_SCHEMA_TOOLS"

// TestProgramOfThePageChecksStreams: the one of docs/schemas.md finds nothing in what the
// sidecar makes of recordings, and finds a word that is wrong.
func TestProgramOfThePageChecksStreams(t *testing.T) {
	python := harness.Program(t, toolsVariable, "python3")
	if exec.Command(python, "-c", "from jsonschema import Draft202012Validator").Run() != nil {
		harness.Missing(t, toolsVariable, "Python has no jsonschema of 4.0 or newer: pip install jsonschema")
	}
	_, program, ok := strings.Cut(harness.ReadFile(t, harness.Path("docs/schemas.md")), "\n```python\n")
	program, _, end := strings.Cut(program, "\n```\n")
	if !ok || !end {
		t.Fatal("docs/schemas.md has no program")
	}
	file := filepath.Join(t.TempDir(), "check.py")
	harness.WriteFile(t, file, []byte(program))
	check := func(stream string) string {
		cmd := exec.Command(python, file)
		cmd.Dir = harness.Path("")
		cmd.Stdin = strings.NewReader(stream)
		out, err := cmd.CombinedOutput()
		if (err != nil) != (len(out) > 0) {
			t.Fatalf("%v, and it says %q", err, out)
		}
		return string(out)
	}
	for _, name := range []string{"g0-v0.8.0/seq_tools", "g1-v0.9.0/labels", "g2-v0.13.0/crash_in_tool", "g3-v0.20.3/one_tool"} {
		for _, options := range [][]string{nil, {"--progress", "comment"}, {"--cards", "on", "--progress", "unnamed"}} {
			stream, _, _ := sidecar.Command(t, t.TempDir(), append([]string{"hermes-repair", filepath.Join(hermes.Captures, name+".sse")}, options...)...)
			if !strings.Contains(stream, "running") {
				t.Fatalf("%s: no tool runs in %q", name, stream)
			}
			if says := check(stream); says != "" {
				t.Errorf("%s %q: %s", name, options, says)
			}
			wrong := strings.NewReplacer(`"running"`, `"runs"`).Replace(stream)
			if says := check(wrong); !strings.Contains(says, `"runs"`) {
				t.Errorf("%s %q: a wrong word passes: %s", name, options, says)
			}
		}
	}
}

// TestPageChecksConfigurations with check-jsonschema, as docs/schemas.md says, and the error
// is the one that it shows.
func TestPageChecksConfigurations(t *testing.T) {
	program := harness.Program(t, toolsVariable, "check-jsonschema")
	dir := t.TempDir()
	check := func(config string) string {
		harness.WriteFile(t, filepath.Join(dir, "caddy.json"), []byte(config))
		cmd := exec.Command(program, "--schemafile", harness.Path("docs/schema/config.json"), "caddy.json")
		cmd.Dir = dir
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	adapted, _, err := sidecar.Command(t, t.TempDir(), "adapt", "--config", harness.Path("Caddyfile.example"))
	if err != nil {
		t.Fatal(err)
	}
	if says := check(adapted); !strings.Contains(says, "ok") {
		t.Error(says)
	}
	says := check(strings.Replace(adapted, `"handler":"hermes"`, `"handler":"hermes","progress":"loud"`, 1))
	if !strings.Contains(harness.ReadFile(t, harness.Path("docs/schemas.md")), says) || !strings.Contains(says, "loud") {
		t.Errorf("it says %q", says)
	}
	for _, name := range []string{"config", "frame", "error"} {
		if out, err := exec.Command(program, "--check-metaschema", harness.Path("docs/schema/"+name+".json")).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
