package member

import (
	"net"
	"testing"
)

func TestAnAgentIsFoundByItsNameWhereNobodyIsAtItsAddress(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for name, address := range map[string]string{
		"at its address": net.JoinHostPort("127.0.0.1", port),
		"elsewhere":      net.JoinHostPort("127.0.0.9", port), // refuses: the listener is on one address only
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := dialer("localhost")(t.Context(), "tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
		})
	}
	if _, err := dialer("localhost")(t.Context(), "tcp", "127.0.0.9:1"); err == nil {
		t.Error("somebody answers where nobody is")
	}
}
