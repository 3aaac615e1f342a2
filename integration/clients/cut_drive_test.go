package clients

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/browser"
)

// How the ways of cut_test.go are driven: each sets cutBench.ask.

// startReal lets a driver of realClients ask.
func startReal(t *testing.T, shop *workshop, drivers map[string]*driver, c *cutBench) {
	if drivers[c.way.client] == nil {
		drivers[c.way.client] = shop.driver(t, shop.t, c.way.client) // it stays for other ways
	}
	c.drive(drivers[c.way.client])
}

// startLibreChat lets LibreChat's engine ask.
func startLibreChat(t *testing.T, shop *workshop, drivers map[string]*driver, c *cutBench) {
	d := drivers[c.way.client]
	if d == nil {
		d = startDriver(shop.t, exec.Command("node", besideModules(shop.t, libreChat(t, shop), "librechat/librechat.mjs")))
		d.ready()
		drivers[c.way.client] = d
	}
	c.drive(d)
}

// drive lets a driver ask.
func (c *cutBench) drive(d *driver) {
	c.version = d.version
	c.ask = func(base, prompt string) seen {
		send := map[string]any{"base_url": base + "/v1", "prompt": prompt}
		maps.Copy(send, c.way.send)
		if c.way.send["key"] != nil { // a port of an earlier question, and its key, may come again
			send["key"] = "the-question-" + prompt
		}
		return d.send(send, harness.Patience)
	}
}

// startEventSource has a page start a run, and read its events with a real EventSource.
func startEventSource(t *testing.T, _ *workshop, _ map[string]*driver, c *cutBench) {
	tab := browser.New(t, 800, 600)
	c.version, c.oneByOne = "of Chromium", true
	c.ask = func(base, prompt string) seen {
		tab.Do(chromedp.Navigate(base + "/run.html"))
		browser.Eval[any](tab, fmt.Sprintf("start(%q)", prompt))
		tab.Wait("finished || failure")
		s := seen{Text: browser.Eval[string](tab, "text")}
		if failure := browser.Eval[string](tab, "failure"); failure != "" {
			s.Error = &seenFail{How: "event", Message: failure}
		}
		return s
	}
}

// startCutOpenWebUI lets a user ask in a real Open WebUI. All ways have one process of it in
// common, and a front that leads each question to the journey that is tried.
func startCutOpenWebUI(t *testing.T, shop *workshop, _ map[string]*driver, c *cutBench) {
	h := c.house
	if h.webui == nil {
		program := openWebUI(t)
		front := harness.Listen(shop.t, func(over context.Context, down net.Conn) {
			at := h.at.Load()
			up, err := net.Dial("tcp", strings.TrimPrefix(at.base, "http://"))
			if err != nil {
				return
			}
			defer up.Close()
			defer context.AfterFunc(over, func() { up.Close() })()
			defer context.AfterFunc(at.Context, func() { up.Close() })()
			go func() {
				_, _ = io.Copy(up, down)
				up.Close()
			}()
			_, _ = io.Copy(down, up)
		})
		h.lead("http://" + harness.FreePort(shop.t))
		const configs = `{"0": {"enable": true, "headers": {"X-Chat-Id": "{{CHAT_ID}}"}}}`
		h.webui = newWebUI(shop.t, startOpenWebUI(shop.t, program, []string{"http://" + front.Addr + "/v1"}, "OPENAI_API_CONFIGS="+configs,
			"ENABLE_TITLE_GENERATION=false", "ENABLE_TAGS_GENERATION=false", "ENABLE_FOLLOW_UP_GENERATION=false"))
		if m := regexp.MustCompile(`(?m)^open-webui==(\S+)$`).FindStringSubmatch(harness.ReadFile(shop.t, "openwebui_requirements.txt")); m != nil {
			h.version = m[1]
		}
	}
	h.T = t
	c.version, c.oneByOne = h.version, true
	c.ask = func(base, prompt string) seen {
		h.lead(base)
		h.open("hermes-agent")
		h.ask(prompt)
		m, _ := h.ended()
		for tries := 4; c.way.how == configuredKey && strings.TrimSpace(m.said()) != c.up.texts[kindChat] && tries > 0; tries-- {
			h.regenerate(m)
			m, _ = h.ended()
		}
		s := seen{Text: m.said()}
		if m.Error != nil {
			s.Error = &seenFail{How: "message", Message: string(m.Error.Content)}
		}
		return s
	}
}

// A cutHouse is the Open WebUI of all ways.
type cutHouse struct {
	*webui  // nil before it is started
	version string
	at      atomic.Pointer[leading]
}

// leading is where the front leads, until the context ends.
type leading struct {
	context.Context
	end  func()
	base string
}

// lead lets the front lead to a base URL from now on. Open WebUI keeps connections, which end.
func (h *cutHouse) lead(base string) {
	to := &leading{base: base}
	to.Context, to.end = context.WithCancel(context.Background())
	if before := h.at.Swap(to); before != nil {
		before.end()
	}
}
