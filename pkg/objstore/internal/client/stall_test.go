package client

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

func TestAConnectionOnWhichNothingComesEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer there.Close()
		conn, began := &watchedConn{Conn: here}, time.Now()
		go func() {
			time.Sleep(idleTimeout / 2)
			_, _ = there.Write([]byte("x"))
		}()
		for n, want := range []error{nil, os.ErrDeadlineExceeded} {
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("read %d: %v", n, err)
			}
		}
		if _, err := conn.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write: %v", err)
		}
		if took := time.Since(began); took != idleTimeout*5/2 {
			t.Errorf("it took %s", took)
		}
	})
}
