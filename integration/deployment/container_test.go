package deployment

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// An image is what .ci/image has built: its root file system, unpacked, and its
// configuration.
type image struct {
	root string
	imageConfig
}

// imageConfig is the part of an image's configuration that docker run obeys.
type imageConfig struct {
	User         string
	Env          []string
	Entrypoint   []string
	Cmd          []string
	ExposedPorts map[string]struct{}
	Labels       map[string]string
	StopSignal   string
	Volumes      map[string]struct{}
	Healthcheck  struct{ Test []string }
}

// built is the image. It is there only in .ci/image, which also gives the tests
// a network of their own, for they listen on every interface.
func built(t testing.TB) image {
	t.Helper()
	root := os.Getenv("HERMES_IMAGE_ROOT")
	if root == "" {
		t.Skip("no image: .ci/image builds it and runs this test")
	}
	var inspect struct {
		Docker struct {
			Config imageConfig `json:"config"`
		}
	}
	if err := json.Unmarshal([]byte(harness.ReadFile(t, os.Getenv("HERMES_IMAGE_INSPECT"))), &inspect); err != nil {
		t.Fatal(err)
	}
	return image{root, inspect.Docker.Config}
}

// A container is how an image is run: what docker run would be told.
type container struct {
	env       []string // over those of the image
	data      string   // directory mounted at /data, "" for none
	caddyfile string   // file mounted in place of the configuration, "" for none
	args      []string // in place of the image's command, nil for that
}

// enclose makes of the script's arguments a process that sees nothing but the
// image's root file system, which is read-only, as the image's user, without a
// capability and without a way to get one. The process keeps its id.
const enclose = `set -e
root=$1 user=$2 data=$3 caddyfile=$4
shift 4
mount --bind "$root" "$root"
if [ -n "$data" ]; then mount --bind "$data" "$root/data"; fi
if [ -n "$caddyfile" ]; then mount --bind "$caddyfile" "$root/etc/hermes-sidecar/Caddyfile"; fi
mount -o remount,bind,ro "$root"
exec setpriv --no-new-privs --bounding-set=-all,+setuid,+setgid,+sys_chroot \
	chroot --userspec="$user" --groups= "$root" "$@"`

// command is a process in the container c of the image.
func (i image) command(c container, args ...string) *exec.Cmd {
	cmd := exec.Command("unshare", append([]string{"--mount", "--propagation", "private",
		"sh", "-c", enclose, "sh", i.root, i.User, c.data, c.caddyfile}, args...)...)
	cmd.Env = append(append([]string{}, i.Env...), c.env...)
	return cmd
}

// serve runs the image, and returns when it serves.
func (i image) serve(t testing.TB, c container) *sidecar.Process {
	t.Helper()
	ready := "serving initial configuration"
	args := i.Cmd
	if c.args != nil {
		args, ready = c.args, "hermes proxying"
	}
	return sidecar.Follow(t, i.command(c, append(append([]string{}, i.Entrypoint...), args...)...), ready)
}

// health runs the image's health check in the same way.
func (i image) health(t testing.TB) (healthy bool, said string) {
	t.Helper()
	if len(i.Healthcheck.Test) < 2 || i.Healthcheck.Test[0] != "CMD" {
		t.Fatalf("health check %q, which a shell would have to run", i.Healthcheck.Test)
	}
	out, err := i.command(container{}, i.Healthcheck.Test[1:]...).CombinedOutput()
	if exit, ok := err.(*exec.ExitError); err != nil && (!ok || exit.ExitCode() != 1) {
		t.Fatalf("%v: %s", err, out)
	}
	return err == nil, string(out)
}
