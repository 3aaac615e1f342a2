package child

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// patience is how long a process may take to end.
const patience = 4 * time.Minute

// roleVariable says how this program ends as a parent, in another process.
const roleVariable = "HERMES_TEST_CHILD"

func TestMain(m *testing.M) {
	if how := os.Getenv(roleVariable); how != "" {
		parent(how)
	}
	os.Exit(m.Run())
}

// parent starts a child, which writes until it is killed, and ends as it is told.
func parent(how string) {
	cmd := exec.Command("sh", "-c", "while echo alive; do sleep 0.01; done")
	cmd.Stdout = os.Stdout
	runtime.LockOSThread() // the first thread, which never ends, so that another one is taken
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and the thread ends with the goroutine
		started <- Start(cmd)
	}()
	if err := <-started; err != nil {
		panic(err)
	}
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // until it is to end
	switch how {
	case "a panic":
		go panic(how)
	case "an exit":
		os.Exit(0)
	}
	select {}
}

// A child ends with its parent, and not with the thread that asked for it.
func TestAChildEndsWithItsParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux sees to it")
	}
	for _, how := range []string{"SIGKILL", "a panic", "an exit"} {
		t.Run(how, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), roleVariable+"="+how)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := Start(cmd); err != nil {
				t.Fatal(err)
			}
			_ = out.(*os.File).SetReadDeadline(time.Now().Add(patience))
			lines := bufio.NewReader(out)
			for range 20 { // the thread has had time to end
				if _, err := lines.ReadString('\n'); err != nil {
					t.Fatalf("the child does not live: %v", err)
				}
			}
			if how == "SIGKILL" {
				_ = cmd.Process.Kill()
			}
			fmt.Fprintln(in)
			if _, err := io.Copy(io.Discard, lines); err != nil { // its end is that of the last process with the pipe
				t.Fatalf("the child lives on: %v", err)
			}
			_ = cmd.Wait()
		})
	}
}
