package netns

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAConnectionIsMadeInsideOfTheNamespace connects to a server that only this namespace has from another one, in which
// even the loopback is down.
func TestAConnectionIsMadeInsideOfTheNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	address := server.Addr().String()
	conn, err := Dialer("/proc/self/ns/net")(t.Context(), "tcp4", address)
	if err != nil {
		t.Fatalf("from its own namespace: %v", err)
	}
	conn.Close()
	cmd := exec.Command("unshare", "--net", "sh", "-c", "echo; read line")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer func() { stdin.Close(); _ = cmd.Wait() }()
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Skipf("no namespace can be made here: %v", err)
	}
	other := filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "ns/net")
	for range 20 { // on any thread
		if _, err := Dialer(other)(t.Context(), "tcp4", address); !errors.Is(err, unix.ENETUNREACH) {
			t.Fatalf("from another namespace: %v", err)
		}
	}
	if _, err := Dialer("/nowhere")(t.Context(), "tcp4", address); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("from nowhere: %v", err)
	}
}
