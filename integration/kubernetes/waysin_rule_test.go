package kubernetes

import (
	"slices"

	core "k8s.io/api/core/v1"
)

// waysIn from outside of the cluster: each leads to a port of the Service that we have.
func waysIn(o objects) (bad []string) {
	leads := func(what, service string, port func(core.ServicePort) bool) {
		for _, s := range o.services {
			if s.Name == service && slices.ContainsFunc(s.Spec.Ports, port) {
				return
			}
		}
		bad = append(bad, what+" leads to no Service of ours")
	}
	for _, i := range o.ingresses {
		for _, r := range i.Spec.Rules {
			for _, p := range r.HTTP.Paths {
				leads("Ingress "+r.Host, p.Backend.Service.Name, func(s core.ServicePort) bool { return s.Name == p.Backend.Service.Port.Name })
			}
		}
	}
	for _, r := range o.routes {
		for _, rule := range r.Spec.Rules {
			for _, b := range rule.BackendRefs {
				leads("HTTPRoute "+r.Name, string(b.Name), func(s core.ServicePort) bool { return b.Port != nil && s.Port == int32(*b.Port) })
			}
			if rule.Timeouts == nil || rule.Timeouts.Request == nil || *rule.Timeouts.Request != "0s" {
				bad = append(bad, "HTTPRoute "+r.Name+" may end a stream")
			}
		}
	}
	return bad
}
