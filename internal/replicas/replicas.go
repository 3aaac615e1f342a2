// Package replicas answers a link at whichever replica it reaches. A ticket is in the memory of the
// process that made it (package desk), and stays there, as do the credentials with which its answer
// is sent to Hermes. A replica that does not know a ticket asks all replicas of its site for it, each
// once, and passes on the answer of a user whom it has checked itself.
//
// An ask is a POST of JSON with a MAC under the secret of the replicas, a nonce and a time, and so is
// what answers it. A replica answers an ask from its own desk only, and asks nobody. An ask has no
// ticket, but its digest. What is forged or too old is refused before anything is looked up, and what is
// repeated before it does anything.
// A ticket made here has a tag under the same secret, so that only links that a replica has made are
// asked for.
package replicas

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/singleflight"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Bounds.
const (
	maxReplicas  = 32        // addresses that are asked
	maxAsking    = 32        // links for which a process asks at the same time
	maxAsk       = 1 << 10   // bytes of an ask
	maxReplyJSON = 512 << 10 // bytes of an answer, which may have a command of 64 KiB, escaped
	maxLines     = 20        // log lines at once
)

// Times.
const (
	// findTimeout is how long the replicas may take to say who has a ticket.
	findTimeout = 3 * time.Second
	// maxSkew is by how much the clocks of replicas may differ.
	maxSkew = 30 * time.Second
	// answerTimeout is how long one may take to answer a question: longer than Hermes may take.
	answerTimeout = 35 * time.Second
)

// header is the field with the MAC of an ask, and that of what answers it.
const header = "X-Hermes-Replica"

// contentType is the type of asks and of what answers them. It is not that of JSON, because hermes_resume may
// be in front, and would keep what it takes for an API.
const contentType = "application/octet-stream"

// DefaultPath is the path of asks if an address has none.
const DefaultPath = "/hermes/replicas"

// Replicas are the processes that serve one site. It is safe for concurrent use.
type Replicas struct {
	addresses []*url.URL
	secret    []byte
	desk      *desk.Desk
	logger    *zap.Logger
	transport http.RoundTripper
	lookup    func(ctx context.Context, network, host string) ([]netip.Addr, error)
	finding   singleflight.Group // by ticket, so that one link takes one place in asking
	asking    chan struct{}      // has one for each link that is asked for
	lines     bounded.Rate
}

// New returns the replicas at the addresses, URLs whose names may each stand for several of them. All of
// them share the secret, and have the same path.
func New(addresses []string, secret string, d *desk.Desk, logger *zap.Logger) (*Replicas, error) {
	p := &Replicas{secret: []byte(secret), desk: d, logger: logger, asking: make(chan struct{}, maxAsking)}
	for _, a := range addresses {
		u, err := url.Parse(a)
		if err != nil {
			return nil, fmt.Errorf("address of replicas: %w", err)
		}
		if u.Path == "" || u.Path == "/" {
			u.Path = DefaultPath
		}
		p.addresses = append(p.addresses, u)
	}
	p.lookup = net.DefaultResolver.LookupNetIP
	dialer := new(net.Dialer)
	p.transport = &http.Transport{
		DisableKeepAlives: true, // a connection is to one replica, and pools know only their common name
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			to, _ := ctx.Value(toKey{}).(string)
			return dialer.DialContext(ctx, network, to)
		},
	}
	return p, nil
}

// toKey is the key in a context of the address of a replica.
type toKey struct{}

// Equal reports whether the two have the same addresses and the same secret.
func (p *Replicas) Equal(o *Replicas) bool {
	return hmac.Equal(p.secret, o.secret) && slices.EqualFunc(p.addresses, o.addresses, func(a, b *url.URL) bool { return *a == *b })
}

// IsAsked reports whether r is for Serve.
func (p *Replicas) IsAsked(r *http.Request) bool { return r.URL.Path == p.addresses[0].Path }

// ask is what a replica asks.
type ask struct {
	Nonce  string                 `json:"nonce"`
	Time   int64                  `json:"time"` // in milliseconds
	Ticket string                 `json:"ticket"`
	Choice rewrite.ApprovalChoice `json:"choice,omitempty"` // "" asks only whether the ticket is known
}

// reply is what answers an ask.
type reply struct {
	Known      bool        `json:"known"`
	View       desk.View   `json:"view"`
	Result     desk.Result `json:"result"`
	NotOffered bool        `json:"not_offered,omitempty"`
	Error      string      `json:"error,omitempty"`
}

// err returns the error of the answer to a question.
func (r *reply) err() error {
	switch {
	case r.NotOffered:
		return desk.ErrNotOffered
	case r.Error != "":
		return errors.New(r.Error)
	}
	return nil
}

// Question is a question whose ticket another replica has or, if none has it, one that is over.
type Question struct {
	of     *Replicas
	ticket string
	at     target
	view   desk.View
}

// View returns what the replica has said last.
func (q *Question) View() desk.View { return q.view }

// Answer is desk.Ticket.Answer at the replica that has the ticket.
func (q *Question) Answer(ctx context.Context, c rewrite.ApprovalChoice, _ desk.Way) (desk.Result, error) {
	if q.view.State == desk.Over {
		return desk.TooLate, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	said, err := q.of.ask(ctx, q.at, ask{Ticket: q.ticket, Choice: c})
	switch {
	case gone(err), err == nil && !said.Known:
		q.view = desk.View{State: desk.Over}
		return desk.TooLate, nil
	case err != nil:
		return desk.Refused, fmt.Errorf("replica %s: %w", q.at.addr, err)
	}
	q.view = said.View
	return said.Result, said.err()
}

// target is a replica.
type target struct {
	url  *url.URL
	addr string // an IP address and a port
}

// ErrUnknown says that a replica that may have the ticket did not answer.
var ErrUnknown = errors.New("a replica did not answer")

// Find asks all replicas for the ticket with the id, which IsTicket. A question that none of them has
// is over. The error is ErrUnknown, or that of a lookup.
func (p *Replicas) Find(ctx context.Context, id string) (*Question, error) {
	digest := desk.Digest(id)
	found, err, _ := p.finding.Do(digest, func() (any, error) {
		select {
		case p.asking <- struct{}{}:
			defer func() { <-p.asking }()
		default:
			return Question{}, errors.New("too many links are being looked up at the same time")
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), findTimeout) // others may be waiting for it
		defer cancel()
		return p.find(ctx, digest)
	})
	q := found.(Question)
	return &q, err
}

// find is Find for the digest of an id.
func (p *Replicas) find(ctx context.Context, digest string) (Question, error) {
	q := Question{of: p, ticket: digest, view: desk.View{State: desk.Over}}
	all, err := p.targets(ctx)
	type result struct {
		at   target
		said *reply
		err  error
	}
	results := make(chan result, len(all))
	for _, t := range all {
		go func() {
			said, err := p.ask(ctx, t, ask{Ticket: q.ticket})
			results <- result{t, said, err}
		}()
	}
	for range all {
		switch r := <-results; {
		case r.err == nil && r.said.Known: // nobody waits for the others
			q.at, q.view = r.at, r.said.View
			return q, nil
		case r.err != nil && !gone(r.err):
			p.log("a replica did not answer a request about an approval", zap.String("replica", r.at.addr), zap.Error(bounded.Error(r.err)))
			err = ErrUnknown
		}
	}
	return q, err
}

// gone reports whether err says that there is no replica at an address, and so no ticket.
func gone(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// targets returns the replicas, at most maxReplicas of them. The error says that it may not be all.
func (p *Replicas) targets(ctx context.Context) (all []target, err error) {
	for _, u := range p.addresses {
		ips, failed := p.lookup(ctx, "ip", u.Hostname())
		if failed != nil {
			p.log("looking up the addresses of the replicas failed", zap.Error(bounded.Error(failed)))
			err = failed
		}
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
		}
		for _, ip := range ips {
			t := target{u, net.JoinHostPort(ip.Unmap().String(), port)}
			if !slices.ContainsFunc(all, func(o target) bool { return o.addr == t.addr }) {
				all = append(all, t)
			}
		}
	}
	if len(all) > maxReplicas {
		p.log("too many replicas: only some were asked about an approval", zap.Int("replicas", len(all)), zap.Int("asked", maxReplicas))
		all, err = all[:maxReplicas], ErrUnknown
	}
	return all, err
}

// ask asks the replica t.
func (p *Replicas) ask(ctx context.Context, t target, a ask) (*reply, error) {
	a.Nonce, a.Time = rand.Text(), time.Now().UnixMilli()
	body, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(context.WithValue(ctx, toKey{}, t.addr), http.MethodPost, t.url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set(header, p.mac("ask", string(body)))
	res, err := p.transport.RoundTrip(r) // it follows no redirect
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	said, err := io.ReadAll(io.LimitReader(res.Body, maxReplyJSON))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK || !p.has(res.Header, "answer", a.Nonce+string(said)) {
		return nil, fmt.Errorf("it answers %s: check that it has the same approvals replicas, and that nothing in front requires a login", res.Status)
	}
	answer := new(reply)
	if err := json.Unmarshal(said, answer); err != nil {
		return nil, fmt.Errorf("its answer: %w", err)
	}
	return answer, nil
}

// Serve answers an ask.
func (p *Replicas) Serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	a, t, refused := p.read(w, r)
	if refused != "" {
		p.log("rejected a request that claims to be from a replica", zap.String("reason", refused), zap.String("remote", r.RemoteAddr))
		w.WriteHeader(http.StatusForbidden)
		return
	}
	answer := new(reply)
	if t != nil {
		answer.Known = true
		if a.Choice != "" {
			answer.answers(t.Answer(r.Context(), a.Choice, desk.Page))
		}
		answer.View = t.View()
	}
	body, _ := json.Marshal(answer) // it has nothing that cannot be encoded
	w.Header().Set("Content-Type", contentType)
	w.Header().Set(header, p.mac("answer", a.Nonce+string(body)))
	_, _ = w.Write(body)
}

// answers sets the result of an answer.
func (r *reply) answers(result desk.Result, err error) {
	r.Result = result
	switch {
	case errors.Is(err, desk.ErrNotOffered):
		r.NotOffered = true
	case err != nil:
		r.Error = bounded.Error(err).Error()
	}
}

// read returns the ask that r is, and its ticket if it is known here, or why it is refused.
func (p *Replicas) read(w http.ResponseWriter, r *http.Request) (a ask, t *desk.Ticket, refused string) {
	if r.Method != http.MethodPost {
		return a, nil, "the method is not POST"
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAsk))
	if err != nil || !p.has(r.Header, "ask", string(body)) {
		return a, nil, "it does not know the secret of the replicas"
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return a, nil, "it is of another version"
	}
	now := time.Now()
	if off := now.Sub(time.UnixMilli(a.Time)); off.Abs() > maxSkew {
		return a, nil, "its time differs by " + off.Round(time.Second).String() + ": synchronize the clocks of the replicas"
	}
	t, _ = p.desk.FindDigest(a.Ticket)
	if t != nil && !t.IsNew(a.Nonce, 2*maxSkew) { // an ask of the future is still refused by its nonce
		return a, nil, "it was sent before, or there were too many for its link"
	}
	return a, t, ""
}

// mac returns the MAC of text, which is of the kind what.
func (p *Replicas) mac(what, text string) string {
	return base64.RawURLEncoding.EncodeToString(p.sum(what, text))
}

// has reports whether h has the MAC of text.
func (p *Replicas) has(h http.Header, what, text string) bool {
	return hmac.Equal([]byte(h.Get(header)), []byte(p.mac(what, text)))
}

func (p *Replicas) sum(what, text string) []byte {
	m := hmac.New(sha256.New, p.secret)
	_, _ = io.WriteString(m, "hermes-sidecar replicas 1 "+what+"\n"+text) // it never fails
	return m.Sum(nil)
}

// tagLen is the number of bytes of a tag, which follow the 16 random ones of a ticket.
const tagLen = 8

// NewID returns the id of a ticket: 128 random bits and their tag, as 32 characters.
func (p *Replicas) NewID() string {
	b := make([]byte, 16, 16+tagLen)
	_, _ = rand.Read(b) // it never fails
	return base64.RawURLEncoding.EncodeToString(append(b, p.sum("ticket", string(b))[:tagLen]...))
}

// IsTicket reports whether a replica has made the ticket with the id.
func (p *Replicas) IsTicket(id string) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(id)
	return err == nil && len(id) == base64.RawURLEncoding.EncodedLen(16+tagLen) && len(b) == 16+tagLen && hmac.Equal(b[16:], p.sum("ticket", string(b[:16]))[:tagLen])
}

// log logs a warning, one a second after the first maxLines.
func (p *Replicas) log(message string, fields ...zap.Field) {
	if c := p.logger.Check(p.lines.Level(zapcore.WarnLevel, maxLines), message); c != nil {
		c.Write(fields...)
	}
}
