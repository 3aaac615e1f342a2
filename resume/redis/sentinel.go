package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// watched is a client of the master that Sentinels name. It asks them itself: the client of go-redis
// trusts what they send, and ends the process if that is no address or no message of theirs.
type watched struct {
	*goredis.Client // of the master
	name            string
	sentinels       []*goredis.Client
	logger          *zap.Logger

	mu     sync.Mutex
	last   *goredis.Client // the Sentinel that has answered last, nil for none
	master string
	reign  context.Context // is done when another server is the master
	depose context.CancelFunc
}

// newWatched returns the client for the options. dial connects to a server.
func (o *Options) newWatched(all goredis.UniversalOptions, dial dialer) *watched {
	w := &watched{name: o.MasterName, logger: o.Logger}
	for _, address := range o.Addrs {
		of := all.Simple()
		of.Addr, of.Username, of.Password, of.PoolSize, of.MaxRetries = address, o.SentinelUsername, o.SentinelPassword, 1, -1
		w.sentinels = append(w.sentinels, goredis.NewClient(of))
	}
	of := all.Simple()
	of.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
		address, reign, err := w.find(ctx)
		if err != nil {
			return nil, err
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return checkedUntil(reign, conn), nil
	}
	w.Client = goredis.NewClient(of)
	return w
}

// Close closes all connections.
func (w *watched) Close() error {
	err := w.Client.Close()
	for _, s := range w.sentinels {
		err = errors.Join(err, s.Close())
	}
	return err
}

// find asks who is the master: the Sentinel that has answered last, or else all of them, of which the
// first answer counts. If it is another server than before, the connections to that are closed.
func (w *watched) find(ctx context.Context) (master string, reign context.Context, err error) {
	w.mu.Lock()
	last := w.last
	w.mu.Unlock()
	if last != nil {
		if master, err = w.ask(ctx, last); err == nil {
			return master, w.crown(master, last), nil
		}
		w.mu.Lock()
		w.last = nil
		w.mu.Unlock()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		master string
		from   *goredis.Client
		err    error
	}
	answers := make(chan answer, len(w.sentinels))
	for _, s := range w.sentinels {
		go func() {
			a := answer{from: s}
			if err := caught(w.logger, func() { a.master, a.err = w.ask(ctx, s) }); err != nil {
				a.err = err
			}
			answers <- a
		}()
	}
	for range w.sentinels {
		a := <-answers
		if a.err == nil {
			return a.master, w.crown(a.master, a.from), nil
		}
		err = errors.Join(err, a.err)
	}
	return "", nil, fmt.Errorf("no Sentinel names the master: %w", err)
}

// crown records that the Sentinel from names the master. It returns its reign.
func (w *watched) crown(master string, from *goredis.Client) context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = from
	if w.reign == nil || w.master != master {
		if w.depose != nil {
			w.depose()
		}
		w.master = master
		w.reign, w.depose = context.WithCancel(context.Background())
	}
	return w.reign
}

// ask asks one Sentinel for the address of the master.
func (w *watched) ask(ctx context.Context, sentinel *goredis.Client) (string, error) {
	reply, err := sentinel.Do(ctx, "sentinel", "get-master-addr-by-name", w.name).Result()
	if isNil(err) {
		return "", fmt.Errorf("the Sentinel %s knows no master %q: check master_name", sentinel.Options().Addr, w.name)
	}
	if err != nil {
		return "", fmt.Errorf("asking the Sentinel %s: %w", sentinel.Options().Addr, err)
	}
	if values, ok := reply.([]any); ok && len(values) == 2 {
		host, _ := values[0].(string)
		port, _ := values[1].(string)
		if n, err := strconv.ParseUint(port, 10, 16); err == nil && n > 0 && host != "" {
			return net.JoinHostPort(host, port), nil
		}
	}
	return "", fmt.Errorf("the Sentinel %s: %w", sentinel.Options().Addr, errReply)
}
