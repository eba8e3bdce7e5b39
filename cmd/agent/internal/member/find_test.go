package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"testing"
)

// podsAt is an API server that knows where pods are.
type podsAt struct {
	API
	at    map[string]string // by path
	asked int
}

func (p *podsAt) Get(_ context.Context, path string, into any) error {
	p.asked++
	address, known := p.at[path]
	if !known {
		return errors.New("there is no " + path)
	}
	return json.Unmarshal(fmt.Appendf(nil, `{"status":{"podIP":%q}}`, address), into)
}

func TestAnAgentIsFoundWhereItsPodIsIfNobodyIsAtItsAddress(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	const shop1 = "/api/v1/namespaces/demo/pods/shop-1"
	tests := map[string]struct {
		address string // in the Lease; the listener is on 127.0.0.1 only
		pods    map[string]string
		answers bool
	}{
		"at its address, whatever the API server says": {"127.0.0.1", nil, true},
		"elsewhere":                      {"127.0.0.9", map[string]string{shop1: "127.0.0.1"}, true},
		"nowhere":                        {"127.0.0.9", map[string]string{shop1: "127.0.0.9"}, false},
		"in a pod that is not there":     {"127.0.0.9", nil, false},
		"in a pod that has no place yet": {"127.0.0.9", map[string]string{shop1: ""}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pods := &podsAt{at: test.pods}
			h := &HTTPS{API: pods, Namespace: "demo"}
			for range 2 {
				conn, err := h.dialer("shop-1")(t.Context(), "tcp", net.JoinHostPort(test.address, port))
				if err == nil {
					conn.Close()
				}
				if (err == nil) != test.answers {
					t.Errorf("somebody answers: %v, want %v: %v", err == nil, test.answers, err)
				}
			}
			if test.address != "127.0.0.1" && pods.asked != 1 {
				t.Errorf("the API server was asked %d times for the same", pods.asked)
			}
		})
	}
}
