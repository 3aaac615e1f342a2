package child

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

// patience is how long a process may take to end.
const patience = 4 * time.Minute

// The roles of this program as another process.
const (
	roleVariable = "HERMES_TEST_CHILD"
	roleServer   = "server" // listens, says where, and stays
)

func TestMain(m *testing.M) {
	switch how := os.Getenv(roleVariable); how {
	case "":
		os.Exit(m.Run())
	case roleServer:
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		fmt.Println(l.Addr())
		for {
			c, err := l.Accept()
			if err != nil {
				panic(err)
			}
			c.Close()
		}
	default:
		parent(how)
	}
}

// parent starts a server, says where it is, and ends as it is told.
func parent(how string) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+roleServer)
	out, err := cmd.StdoutPipe()
	if err != nil {
		panic(err)
	}
	runtime.LockOSThread() // the first thread, which never ends, so that another one is taken
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and the thread ends with the goroutine
		started <- Start(cmd)
	}()
	if err := <-started; err != nil {
		panic(err)
	}
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		panic(err)
	}
	fmt.Print(addr)
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
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			addr := strings.TrimSpace(line)
			for range 10 { // the thread has had time to end
				c, err := net.Dial("tcp", addr)
				if err != nil {
					t.Fatalf("the child does not live: %v", err)
				}
				c.Close()
				time.Sleep(10 * time.Millisecond)
			}
			if how == "SIGKILL" {
				_ = cmd.Process.Kill()
			}
			fmt.Fprintln(in)
			_ = cmd.Wait()
			for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
				c, err := net.Dial("tcp", addr)
				if err != nil {
					return
				}
				c.Close()
				if time.Now().After(deadline) {
					t.Fatal("the child lives on")
				}
			}
		})
	}
}
