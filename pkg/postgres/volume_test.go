package postgres

import (
	"errors"
	"strings"
	"testing"
)

func TestWALBetweenCheckpointsFitsASmallVolume(t *testing.T) {
	for volume, want := range map[int64][2]string{
		0: {"", ""}, 10 * gib: {"1024MB", "256MB"}, 4 * gib: {"819MB", "204MB"}, 200 * gib: {"10240MB", "2560MB"}, 1000 * gib: {"16384MB", "4096MB"}, 512 * mib: {"102MB", "51MB"}, 256 * mib: {"64MB", "32MB"},
	} {
		got := map[string]string{}
		for _, p := range VolumeParameters(volume, DefaultSegSize) {
			got[p.Name] = p.Value
		}
		if got["max_wal_size"] != want[0] || got["min_wal_size"] != want[1] {
			t.Errorf("%d MiB: %v", volume/mib, got)
		}
	}
}

func TestWALHasRoomForTwoSegments(t *testing.T) {
	for segment, want := range map[int64][2]string{64 * mib: {"1024MB", "256MB"}, gib: {"4096MB", "2048MB"}} {
		got := map[string]string{}
		for _, p := range VolumeParameters(0, segment) {
			got[p.Name] = p.Value
		}
		if got["max_wal_size"] != want[0] || got["min_wal_size"] != want[1] {
			t.Errorf("segments of %d MiB: %v", segment/mib, got)
		}
	}
	for _, c := range []struct {
		value   string
		segment int64
		says    string
	}{
		{"80MB", 64 * mib, "write at least 128MB"}, {"127", 64 * mib, "write at least 128MB"}, {"0.1GB", 64 * mib, "write at least 128MB"},
		{"131072kB", 64 * mib, ""}, {"128", 64 * mib, ""}, {"80MB", DefaultSegSize, ""}, {"1TB", gib, ""}, {"lots", gib, ""}, {"80MB", 0, ""},
	} {
		err := CheckSegments(map[string]string{"min_wal_size": c.value}, c.segment)
		if (err == nil) != (c.says == "") || err != nil && (!errors.Is(err, ErrParameter) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s with segments of %d MiB: %v", c.value, c.segment/mib, err)
		}
	}
}

func TestConnectionsAreReservedWhereThereAreEnough(t *testing.T) {
	for asked, want := range map[string]int{"": 2, "100": 2, "20": 2, "19": 0, "8": 0, "many": 0} {
		if got := len(ReservedConnections(16, asked)); got != want {
			t.Errorf("of %q: %d parameters, want %d", asked, got, want)
		}
	}
	if got := ReservedConnections(15, ""); len(got) != 1 || got[0].Name != "superuser_reserved_connections" {
		t.Errorf("15 doesn't know others: %v", got)
	}
}
