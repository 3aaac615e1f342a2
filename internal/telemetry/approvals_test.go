package telemetry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// TestApprovalsAreCounted, each number from the start.
func TestApprovalsAreCounted(t *testing.T) {
	d := desk.New()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(approvals{d})
	want := func(waiting, asked, once int) {
		t.Helper()
		var got []string
		for _, f := range all(t, registry.Gather) {
			for _, m := range f.Metric {
				var labels []string
				for _, l := range m.Label {
					labels = append(labels, l.GetValue())
				}
				name := strings.TrimPrefix(f.GetName(), "caddy_hermes_approvals_")
				got = append(got, fmt.Sprint(name, labels, m.GetCounter().GetValue()+m.GetGauge().GetValue()))
			}
		}
		if want := []string{
			"answered_total[always page] 0", "answered_total[deny page] 0", "answered_total[deny reply] 0",
			fmt.Sprint("answered_total[once page] ", once), "answered_total[once reply] 0", "answered_total[session page] 0",
			fmt.Sprint("asked_total[] ", asked), "expired_total[] 0", "omitted_total[] 1", fmt.Sprint("waiting[] ", waiting),
		}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	s := d.Tickets(desk.Asker{Timeout: time.Hour, Send: func(context.Context, rewrite.ApprovalRequest, rewrite.ApprovalChoice) (desk.Result, error) {
		return desk.Accepted, nil
	}})
	s.Ask(rewrite.ApprovalRequest{})
	ticket := s.Ask(rewrite.ApprovalRequest{RunID: "run_1", RequestID: "1", Command: "ls", Choices: []rewrite.ApprovalChoice{desk.Once}})
	want(1, 1, 0)
	if result, err := ticket.Answer(t.Context(), desk.Once, desk.Page); result != desk.Accepted || err != nil {
		t.Fatal(result, err)
	}
	want(0, 1, 1)
}
