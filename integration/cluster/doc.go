// Package cluster applies deploy/kubernetes to a real API server,
// with its etcd and its controllers, all built from their Go modules and started on
// the loopback interface. It is a module of its own, for that takes minutes to
// compile the first time; .ci/kubernetes runs it. No kubelet runs: the pods are
// admitted and led to, not started.
package cluster
