package pgbouncer

import "testing"

// Who is in a transaction on another server is ended, so the same address must be known in whatever way it is written.
func TestAServerIsKnownByItsAddressHoweverThatIsWritten(t *testing.T) {
	for _, c := range []struct {
		address, port, place string
		want                 bool
	}{
		{"10.0.0.1", "5432", "10.0.0.1", true},
		{"10.0.0.1", "5432", "10.0.0.2", false},
		{"10.0.0.1", "5433", "10.0.0.1", false},
		{"fd00::1", "5432", "fd00:0:0::1", true},
		{"fd00::1", "5432", "FD00::1", true},
		{"::ffff:10.0.0.1", "5432", "10.0.0.1", true},
		{"unix", "5432", "10.0.0.1", false},
		{"unix", "5432", "unix", true},
	} {
		if got := (server{address: c.address, port: c.port}).isAt(place{Address: c.place, Port: 5432}); got != c.want {
			t.Errorf("%s port %s is at %s: %t", c.address, c.port, c.place, got)
		}
	}
}
