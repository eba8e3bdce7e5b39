package pgbouncer

import (
	"net"
	"testing"
	"time"
)

func TestOnlyAServerThatSaysNothingIsSilent(t *testing.T) {
	listener := func(answer func(net.Conn)) (address string) {
		t.Helper()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				answer(conn)
			}
		}()
		return l.Addr().String()
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	var held []net.Conn
	for what, c := range map[string]struct {
		server string
		want   bool
	}{
		"one that is frozen":          {listener(func(conn net.Conn) { held = append(held, conn) }), true},
		"one that answers":            {listener(func(conn net.Conn) { _, _ = conn.Write([]byte("S")) }), false},
		"one that ends the session":   {listener(func(conn net.Conn) { _ = conn.Close() }), false},
		"one that refuses a session":  {closed.Addr().String(), false},
		"one whose name is no server": {"no server", false},
	} {
		if got := isSilent(t.Context(), c.server, time.Millisecond); got != c.want {
			t.Errorf("%s is silent: %t", what, got)
		}
	}
}
