package cluster

import (
	"slices"
	"testing"
)

func TestOnlyMountsBelowTheClustersFolderAreRemoved(t *testing.T) {
	const mounts = `36 35 98:0 / / rw - ext4 /dev/vda rw
37 36 98:0 /x /cache/run/test/a rw - ext4 /dev/vda rw
38 37 0:3 / /cache/run/test/a/b rw shared:1 - tmpfs tmpfs rw
39 36 0:4 / /cache/run/test2/a rw - tmpfs tmpfs rw
`
	want := []string{"/cache/run/test/a", "/cache/run/test/a/b"}
	if got := mountsBelow(mounts, "/cache/run/test"); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}
