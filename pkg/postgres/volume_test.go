package postgres

import "testing"

func TestWALBetweenCheckpointsFitsASmallVolume(t *testing.T) {
	for volume, want := range map[int64][2]string{
		0: {"", ""}, 10 * gib: {"", ""}, 4 * gib: {"819MB", "80MB"}, 512 * mib: {"102MB", "51MB"}, 256 * mib: {"64MB", "32MB"},
	} {
		got := map[string]string{}
		for _, p := range VolumeParameters(volume) {
			got[p.Name] = p.Value
		}
		if got["max_wal_size"] != want[0] || got["min_wal_size"] != want[1] {
			t.Errorf("%d MiB: %v", volume/mib, got)
		}
	}
}
