// Package cluster applies what is in deploy/kubernetes to a real API server,
// built from its Go modules and started on the loopback interface with an etcd.
// It is a module of its own, for that takes minutes to compile the first time;
// .ci/kubernetes runs it. No kubelet runs: the pods are admitted, not started.
package cluster
