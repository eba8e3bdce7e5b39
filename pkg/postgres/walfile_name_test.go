package postgres

import "testing"

func TestANameIsKnownWithoutTheSizeOfSegments(t *testing.T) {
	for name, want := range map[string]WALFileKind{
		"000000010000000000000003":                 WALSegment,
		"000000010000000000000FFF":                 WALSegment, // of 1 MiB
		"000000010000000000000003.partial":         WALPartial,
		"00000002.history":                         WALHistory,
		"000000010000000000000003.00000028.backup": WALBackupHistory,
		"000000010000000000000003.0025DC78.backup": WALBackupHistory, // after the first MiB of a larger segment
		"000000010000000000000003.3FFFFFF8.backup": WALBackupHistory,
	} {
		file, err := ParseWALName(name)
		if err != nil || file.Kind != want || file.Name != name {
			t.Errorf("%s: %+v, %v", name, file, err)
		}
	}
	for _, name := range []string{"", "x", "../000000010000000000000003", "000000010000000000000003.40000000.backup", "000000010000000000000003.0025dc78.backup"} {
		if file, err := ParseWALName(name); err == nil {
			t.Errorf("%q is taken for %+v", name, file)
		}
	}
}
