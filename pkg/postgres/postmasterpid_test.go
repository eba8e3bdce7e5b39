package postgres

import (
	"errors"
	"testing"
)

const pidFile = "4711\n/var/lib/howdah/current/pgdata\n1795223460\n5432\n/var/run/postgresql\n*\n  5432001         3\nready   \n"

func TestThePostmastersFileTellsProcessAndStatus(t *testing.T) {
	p, err := ParsePostmasterPID([]byte(pidFile))
	if err != nil || p.PID != 4711 || p.DataDir != "/var/lib/howdah/current/pgdata" || p.Port != 5432 ||
		p.SocketDir != "/var/run/postgresql" || p.Listen != "*" || !p.Accepting() || p.Started.Unix() != 1795223460 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestAHalfWrittenPostmastersFileStillTellsTheProcess(t *testing.T) {
	if p, err := ParsePostmasterPID([]byte("4711\n/data\n17952")); err != nil || p.PID != 4711 || p.Accepting() {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := ParsePostmasterPID(nil); !errors.Is(err, ErrSyntax) {
		t.Errorf("%+v, %v", p, err)
	}
}

func FuzzParsePostmasterPID(f *testing.F) {
	f.Add([]byte(pidFile))
	f.Fuzz(func(t *testing.T, content []byte) {
		if p, err := ParsePostmasterPID(content); err == nil && p.PID == 0 {
			t.Errorf("%+v", p)
		}
	})
}
