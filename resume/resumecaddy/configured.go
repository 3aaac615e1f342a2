package resumecaddy

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/hermes-sidecar/hermes-sidecar/internal/options"
	"github.com/hermes-sidecar/hermes-sidecar/internal/placeholder"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// The options key and always make requests resumable that do not ask for it themselves.

// configure sets the fields of o for the options key and always.
func (h *ResumeHandler) configure(o *resume.Options) {
	o.Always, o.KeyBody = h.Always, h.KeyBody
	if len(h.Key) > 0 {
		o.Key = func(r *http.Request) []string {
			values, ok := placeholder.Values(r, h.Key...)
			if !ok {
				return nil
			}
			return values
		}
	}
	if len(h.AlwaysFor) > 0 {
		o.AlwaysFor = make(map[resume.API]time.Duration, len(h.AlwaysFor))
	}
	for api, d := range h.AlwaysFor {
		o.AlwaysFor[resume.API(api)] = time.Duration(d)
	}
}

// validateConfigured reports a value of key or always that is not allowed.
func (h *ResumeHandler) validateConfigured() error {
	if h.Key != nil && !slices.ContainsFunc(h.Key, placeholder.IsIn) {
		return fmt.Errorf("invalid key %q: must contain a placeholder that distinguishes chats, such as {http.request.header.X-Chat-Id} ({header.X-Chat-Id} in a Caddyfile)", h.Key)
	}
	detach := resume.DefaultDetach
	if h.Detach != nil {
		detach = time.Duration(*h.Detach)
	}
	for _, api := range slices.Sorted(maps.Keys(h.AlwaysFor)) {
		if !slices.Contains(resume.APIs(), resume.API(api)) {
			return fmt.Errorf("invalid always_for: unknown API %q: must be %s", api, apis())
		}
		d := time.Duration(h.AlwaysFor[api])
		if err := validDuration("always_for", d); err != nil {
			return err
		}
		if d > detach {
			return fmt.Errorf("invalid always_for: always %s %s is longer than detach, which is %s: raise detach, or shorten it", api, d, detach)
		}
	}
	return nil
}

// apis returns the names of the APIs as a list for an error message.
func apis() string {
	var names []string
	for _, api := range resume.APIs() {
		names = append(names, string(api))
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// parseKey parses the option key, and adds what it sets to values.
func parseKey(d *caddyfile.Dispenser, values options.Values) error {
	texts := d.RemainingArgs()
	if n := len(texts); n > 0 && texts[n-1] == "body" {
		texts, values["key_body"] = texts[:n-1], true
	}
	if len(texts) == 0 {
		return d.Err("wrong number of arguments for key: got none, must be placeholders, such as {header.X-Chat-Id}, and body if the body is a part of the key")
	}
	values["key"] = texts
	return nil
}

// parseAlways parses an option always, of which there may be several, and adds what it sets.
func parseAlways(d *caddyfile.Dispenser, values options.Values) error {
	args := d.RemainingArgs()
	switch len(args) {
	case 0:
		if values["always"] != nil {
			return d.Err("always already specified: use it only once")
		}
		values["always"] = true
		return nil
	case 1:
		return d.Err("wrong number of arguments for always: got 1, must be none, or APIs and a duration, such as sessions runs 10m")
	}
	text := args[len(args)-1]
	duration, err := caddy.ParseDuration(text)
	if err != nil || duration < 0 {
		return d.Errf("invalid always %q: must end with a duration such as 10m or 30s, and not negative", text)
	}
	if values["always_for"] == nil {
		values["always_for"] = make(map[string]caddy.Duration)
	}
	all := values["always_for"].(map[string]caddy.Duration)
	for _, api := range args[:len(args)-1] {
		if !slices.Contains(resume.APIs(), resume.API(api)) {
			return d.Errf("unknown API %q for always: must be %s", api, apis())
		}
		if _, twice := all[api]; twice {
			return d.Errf("always %s already specified: use it only once", api)
		}
		all[api] = caddy.Duration(duration)
	}
	return nil
}
