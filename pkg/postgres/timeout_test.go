package postgres

import (
	"testing"
	"time"
)

func TestArchiveTimeoutIsReadWithItsUnit(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"10": 10 * time.Second, "10s": 10 * time.Second, " 5 min": 5 * time.Minute, "1h": time.Hour, "1500ms": 1500 * time.Millisecond,
		"0": 0, "-1": 0, "soon": 0, "": 0, "5 parsecs": 0,
	} {
		if got := ArchiveTimeout(map[string]string{"archive_timeout": text}); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
	if got := ArchiveTimeout(nil); got != time.Minute {
		t.Errorf("by default %s", got)
	}
}
