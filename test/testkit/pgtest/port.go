package pgtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports for servers of tests. The kernel gives none of them to an outgoing connection, which would take one between the look
// and the start of the server, or while that restarts.
const (
	firstPort = 20000
	lastPort  = 29999
)

// Port is one that no other test of this machine gets until this one has ended, and that nobody listens on now.
func Port(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		// The name goes with the process that has it, however that ends, and any user may look for it.
		claim, err := net.Listen("unix", fmt.Sprintf("@howdah-test-port-%d", port))
		if err != nil {
			continue
		}
		if listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port)); err == nil {
			t.Cleanup(func() { claim.Close() })
			listener.Close()
			return port
		}
		claim.Close()
	}
	t.Fatal("no port is free")
	return 0
}
