// Lab serves hermes_approvals at the address of its first argument, for tests in a browser, which
// reaches it at the URL of the second. For
// each line that it reads, a command as JSON, it makes a ticket and writes the path of its page;
// when the ticket is answered, it writes "sent" and the choice.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	_ "github.com/hermes-sidecar/hermes-sidecar/desk/deskcaddy"
	"github.com/hermes-sidecar/hermes-sidecar/internal/hermesapp"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

func main() {
	host, port, err := net.SplitHostPort(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	file := fmt.Sprintf(`{
	admin off
	persist_config off
	auto_https off
	log default {
		output discard
	}
}
http://:%s {
	bind %s
	hermes_approvals {
		allow_always
	}
}
`, port, host)
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(file), nil)
	if err == nil {
		err = caddy.Load(config, true)
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for n := 0; in.Scan(); n++ {
		var command string
		if err := json.Unmarshal(in.Bytes(), &command); err != nil {
			log.Fatal(err)
		}
		t := hermesapp.OfProcess().Desk.Tickets(desk.Asker{
			Owner: [32]byte{byte(n)}, Link: os.Args[2] + "/hermes/approve", Timeout: time.Hour, // a client of its own, because a client has at most 20 tickets
			Send: func(_ context.Context, _ rewrite.ApprovalRequest, c rewrite.ApprovalChoice) (desk.Result, error) {
				fmt.Println("sent", c)
				return desk.Accepted, nil
			},
		}).Ask(rewrite.ApprovalRequest{
			RunID: "run", RequestID: fmt.Sprint(n), Command: command, Description: "recursive delete", Tool: "terminal",
			Choices: []rewrite.ApprovalChoice{desk.Once, desk.Session, desk.Always, desk.Deny},
		})
		fmt.Println("/hermes/approve/" + t.ID())
	}
}
