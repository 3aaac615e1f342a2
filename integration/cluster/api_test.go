package cluster

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// An object is one of the API's, as JSON has it.
type object = map[string]any

// An api is a client of the API server.
type api struct {
	t    *testing.T
	base string
	http *http.Client
}

// A result is what the API server has answered.
type result struct {
	status   int
	body     object
	warnings []string
}

// newAPI is a client that takes the server's certificate as it is: the server is
// a process of ours on the loopback interface.
func newAPI(t *testing.T, base string) *api {
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(tr.CloseIdleConnections)
	return &api{t: t, base: base, http: &http.Client{Transport: tr, Timeout: patience}}
}

// of returns the client for a subtest.
func (a *api) of(t *testing.T) *api { return &api{t: t, base: a.base, http: a.http} }

func (a *api) do(method, path, media string, v any) (result, error) {
	var body io.Reader
	if v != nil {
		b, err := json.Marshal(v)
		if err != nil {
			return result{}, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequest(method, a.base+path, body)
	if err != nil {
		return result{}, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", media)
	res, err := a.http.Do(req)
	if err != nil {
		return result{}, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return result{}, err
	}
	r := result{status: res.StatusCode, warnings: res.Header.Values("Warning")}
	json.Unmarshal(b, &r.body) // /readyz is none
	return r, nil
}

// until waits for what has to become true.
func (a *api) until(what string, is func() bool) {
	a.t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !is(); <-tick.C {
		if time.Now().After(deadline) {
			a.t.Fatalf("it does not come about that %s", what)
		}
	}
}

// resources are the names that kinds have in a path.
var resources = map[string]string{
	"ConfigMap": "configmaps", "Service": "services", "PersistentVolumeClaim": "persistentvolumeclaims", "Namespace": "namespaces", "Pod": "pods", "Node": "nodes",
	"ServiceAccount": "serviceaccounts", "Deployment": "deployments", "StatefulSet": "statefulsets", "NetworkPolicy": "networkpolicies",
	"PodMonitor": "podmonitors", "HorizontalPodAutoscaler": "horizontalpodautoscalers", "PodDisruptionBudget": "poddisruptionbudgets",
	"CustomResourceDefinition": "customresourcedefinitions", "PrometheusRule": "prometheusrules", "HTTPRoute": "httproutes", "Ingress": "ingresses",
}

// path is where objects of o's kind are.
func path(t *testing.T, o object, namespace string) string {
	t.Helper()
	version, _ := o["apiVersion"].(string)
	kind, _ := o["kind"].(string)
	if resources[kind] == "" {
		t.Fatalf("a %s is not expected here", kind)
	}
	root := "/apis/" + version
	if version == "v1" {
		root = "/api/v1"
	}
	if kind == "Namespace" || kind == "Node" || kind == "CustomResourceDefinition" {
		return root + "/" + resources[kind]
	}
	return root + "/namespaces/" + namespace + "/" + resources[kind]
}

func name(o object) string {
	meta, _ := o["metadata"].(object)
	n, _ := meta["name"].(string)
	return n
}

// apply is kubectl apply --server-side, strict about what it does not know.
func (a *api) apply(o object, namespace string, dry bool) (result, error) {
	a.t.Helper()
	q := url.Values{"fieldManager": {"test"}, "fieldValidation": {"Strict"}, "force": {"true"}}
	if dry {
		q.Set("dryRun", "All")
	}
	r, err := a.do("PATCH", path(a.t, o, namespace)+"/"+name(o)+"?"+q.Encode(), "application/apply-patch+yaml", o)
	if err == nil && r.status >= 300 {
		err = fmt.Errorf("%d: %v", r.status, r.body["message"])
	}
	return r, err
}

// must applies what has to be accepted.
func (a *api) must(o object, namespace string) {
	a.t.Helper()
	if _, err := a.apply(o, namespace, false); err != nil {
		a.t.Fatalf("%s %s: %v", o["kind"], name(o), err)
	}
}

// documents are the objects of a file of YAML.
func documents(t *testing.T, file []byte) (all []object) {
	t.Helper()
	for doc := range strings.SplitSeq("\n"+string(file), "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatal(err)
		}
		if len(o) > 0 {
			all = append(all, o)
		}
	}
	return all
}
