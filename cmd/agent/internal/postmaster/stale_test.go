package postmaster

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestTheLockOfASocketIsNobodysUnlessItsServerLives(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		content string
		taken   bool
	}{
		"of a container that is gone; its number is somebody else's now": {fmt.Sprintf("%d\n%s\n", os.Getpid(), t.TempDir()), false},
		"of data that is gone":     {fmt.Sprintf("%d\n/no/such/folder\n", os.Getpid()), false},
		"of a process that is not": {fmt.Sprintf("999999999\n%s\n", here), false},
		"cut short":                {"", false},
		"of a server that lives":   {fmt.Sprintf("%d\n%s\n", os.Getpid(), here), true},
	} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), ".s.PGSQL.5432")
			if err := os.WriteFile(socket+".lock", []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			err := removeStaleLock(socket)
			_, stat := os.Stat(socket + ".lock")
			if taken, there := err != nil, stat == nil; taken != c.taken || there != c.taken {
				t.Errorf("error %v, the lock is there: %v", err, there)
			}
		})
	}
	if err := removeStaleLock(filepath.Join(t.TempDir(), ".s.PGSQL.5432")); err != nil {
		t.Errorf("without a lock: %v", err)
	}
}
