package redis

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// maxConnections is how many connections a replica may have to a server or a node of a cluster.
const maxConnections = 64

// connect returns the client that the options ask for: of one server, of the master that Sentinels
// name, or of a cluster.
func (o *Options) connect() goredis.UniversalClient {
	// Without a ServerName, the certificate has to name the host that is dialed.
	return o.connectBy(goredis.NewDialer(&goredis.Options{DialTimeout: o.Timeout, TLSConfig: o.TLSConfig}))
}

// connectBy is connect with another function that connects to an address.
func (o *Options) connectBy(dial dialer) goredis.UniversalClient {
	c := o.UniversalOptions
	c.DialTimeout, c.ReadTimeout, c.WriteTimeout, c.PoolTimeout = o.Timeout, o.Timeout, o.Timeout, o.Timeout
	c.ContextTimeoutEnabled, c.DialerRetries, c.MaxRetries = true, 1, 1
	c.PoolSize, c.MaxIdleConns, c.ConnMaxIdleTime = maxConnections, 16, time.Minute
	c.Protocol, c.DisableIdentity = 2, true
	c.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	c.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		if isSocket(address) {
			network = "unix"
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return checked(conn), nil
	}
	if o.MasterName != "" {
		return o.newWatched(c, dial)
	}
	if !o.isCluster() {
		return goredis.NewUniversalClient(&c)
	}
	cluster := c.Cluster()
	cluster.DisableRoutingPolicies = true // they need COMMAND, whose reply is large
	client := goredis.NewClusterClient(cluster)
	client.OnNewNode(func(node *goredis.Client) { node.AddHook(slots{}) })
	return client
}

// slots is a hook that checks what a node says of the cluster. No value is no answer: it must not
// become the answer to the command for which the nodes are sought.
type slots struct{}

func (slots) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		err := next(ctx, cmd)
		if is, ok := cmd.(*goredis.ClusterSlotsCmd); ok && (isNil(err) || err == nil && !areSlots(is.Val())) {
			err = errReply
			cmd.SetErr(err)
		}
		return err
	}
}

func (slots) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (slots) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

// areSlots reports whether all are ranges of the slots of a cluster, each with its nodes.
func areSlots(all []goredis.ClusterSlot) bool {
	return !slices.ContainsFunc(all, func(s goredis.ClusterSlot) bool {
		return s.Start < 0 || s.End < s.Start || s.End > lastSlot || len(s.Nodes) == 0
	})
}

// lastSlot is the number of the last slot of a cluster.
const lastSlot = 16383

// dialer is the type of functions that connect to an address.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// isCluster reports whether the options are those of a cluster.
func (o *Options) isCluster() bool {
	return o.MasterName == "" && (o.IsClusterMode || len(o.Addrs) > 1)
}

// isSocket reports whether an address is the path of a socket.
func isSocket(address string) bool {
	return strings.HasPrefix(address, "/") || strings.HasPrefix(address, "@")
}

// ask asks Redis for the time. In a cluster it succeeds if one master answers. It also asks Sentinels
// whether another server is the master now.
func (s *Store) ask(ctx context.Context) error {
	if w, ok := s.client.(*watched); ok {
		err := w.Time(ctx).Err()
		_, _, _ = w.find(ctx) // without Sentinels the master stays
		return err
	}
	cluster, ok := s.client.(*goredis.ClusterClient)
	if !ok {
		return s.client.Time(ctx).Err()
	}
	var answers atomic.Bool
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, master *goredis.Client) error {
		err := master.Time(ctx).Err()
		if err == nil {
			answers.Store(true)
		}
		return err
	})
	if answers.Load() {
		return nil
	}
	return err
}
