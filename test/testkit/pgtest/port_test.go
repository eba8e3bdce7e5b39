package pgtest

import (
	"fmt"
	"net"
	"os"
	"testing"
)

func TestNobodyElseGetsAPortWhileTheTestRuns(t *testing.T) {
	given := map[int]bool{}
	for range 500 {
		port := Port(t)
		if given[port] {
			t.Errorf("%d was given twice", port)
		}
		given[port] = true
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Error(err)
			continue
		}
		listener.Close()
	}
}

func TestAPortIsNoneThatTheKernelGivesAway(t *testing.T) {
	content, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Fatal(err)
	}
	var first, last int
	if _, err := fmt.Sscan(string(content), &first, &last); err != nil {
		t.Fatal(err)
	}
	if first <= lastPort && last >= firstPort {
		t.Errorf("outgoing connections get %d to %d", first, last)
	}
}
