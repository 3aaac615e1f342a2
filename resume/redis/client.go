package redis

import (
	"context"
	"net"
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
	c := o.UniversalOptions
	c.DialTimeout, c.ReadTimeout, c.WriteTimeout, c.PoolTimeout = o.Timeout, o.Timeout, o.Timeout, o.Timeout
	c.ContextTimeoutEnabled, c.DialerRetries, c.MaxRetries = true, 1, 1
	c.PoolSize, c.MaxIdleConns, c.ConnMaxIdleTime = maxConnections, 16, time.Minute
	c.Protocol, c.DisableIdentity = 2, true
	c.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	// Without a ServerName, the certificate has to name the host that is dialed.
	dial := goredis.NewDialer(&goredis.Options{DialTimeout: o.Timeout, TLSConfig: o.TLSConfig})
	c.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		if isSocket(address) {
			network = "unix"
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if o.MasterName != "" { // go-redis speaks RESP 3 with Sentinels, which push messages
			return checkedPushes(conn), nil
		}
		return checked(conn), nil
	}
	if !o.isCluster() {
		return goredis.NewUniversalClient(&c)
	}
	cluster := c.Cluster()
	cluster.DisableRoutingPolicies = true // they need COMMAND, whose reply is large
	return goredis.NewClusterClient(cluster)
}

// isCluster reports whether the options are those of a cluster.
func (o *Options) isCluster() bool {
	return o.MasterName == "" && (o.IsClusterMode || len(o.Addrs) > 1)
}

// isSocket reports whether an address is the path of a socket.
func isSocket(address string) bool {
	return strings.HasPrefix(address, "/") || strings.HasPrefix(address, "@")
}

// address returns the addresses of Redis for a log message.
func (o *Options) address() string { return strings.Join(o.Addrs, " ") }

// ask asks Redis for the time. In a cluster it succeeds if one master answers.
func (s *Store) ask(ctx context.Context) error {
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
