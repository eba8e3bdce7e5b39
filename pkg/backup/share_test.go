package backup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

// sharing is a folder on a file system whose files can share blocks, until the end of the test.
func sharing(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("mkfs.xfs")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("needs root and mkfs.xfs, which test/debian-packages installs")
	}
	image, dir := filepath.Join(t.TempDir(), "image"), filepath.Join(t.TempDir(), "xfs")
	must(t, os.WriteFile(image, nil, 0o600))
	must(t, os.Truncate(image, 400<<20))
	must(t, os.Mkdir(dir, 0o700))
	if out, err := exec.Command(program, "-q", "-m", "reflink=1", image).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
		t.Skipf("this machine mounts no images: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return dir
}

// used are the bytes in use where a folder is.
func used(t *testing.T, dir string) int64 {
	t.Helper()
	must(t, SyncTree(dir))
	stat := unix.Statfs_t{}
	must(t, unix.Statfs(dir, &stat))
	return int64(stat.Blocks-stat.Bfree) * stat.Bsize
}

// TestFilesAreSharedWithThePresentDirectoryAndItStaysAsItIs with all that may have become of that since the backup.
func TestFilesAreSharedWithThePresentDirectoryAndItStaysAsItIs(t *testing.T) {
	leaveOutForRaces(t)
	volume, store, dir := sharing(t), mem.New(), pgdata(t)
	write(t, dir, presentRelation, relationPages(32<<20/postgres.PageSize, pagesPerSegment, 100, 1), 0o600)
	file, err := os.OpenFile(filepath.Join(dir, presentRelation), os.O_RDWR, 0)
	must(t, err)
	must(t, makeZero(file, 5<<20, 9<<20))
	must(t, file.Close())
	manifest := mustWrite(t, store, dir, "b1")
	want := fresh(t, store, manifest)
	run := 0
	try := func(t *testing.T, harm func(t *testing.T, dir string)) (present, target string, wrote int64) {
		run++
		present, target = filepath.Join(volume, fmt.Sprint("present", run)), filepath.Join(volume, fmt.Sprint("restored", run))
		t.Cleanup(func() { must(t, os.RemoveAll(present)); must(t, os.RemoveAll(target)) })
		must(t, exec.Command("cp", "-a", "--reflink=never", dir, present).Run())
		harm(t, present)
		must(t, SyncTree(volume))
		before, stays := used(t, volume), describe(t, present, []string{"pipe"})
		last := Progress{}
		must(t, Restore(t.Context(), store, manifest, target, RestoreOptions{Present: present, Progress: func(p Progress) { last = p }}))
		wrote = used(t, volume) - before
		same(t, want, target)
		for name, text := range describe(t, present, []string{"pipe"}) {
			if stays[name] != text {
				t.Errorf("%q of the present directory has become %.80q, it was %.80q", name, text, stays[name])
			}
		}
		if last.Done != last.Total {
			t.Errorf("it ended at %+v", last)
		}
		return present, target, wrote
	}
	for name, test := range changesSince {
		t.Run(name, func(t *testing.T) { try(t, test.harm) })
	}
	t.Run("holes were filled", func(t *testing.T) {
		try(t, func(t *testing.T, dir string) {
			writeAt(t, filepath.Join(dir, presentRelation), randomBytes(4<<20, 4), 5<<20)
		})
	})
	t.Run("only what is other takes room", func(t *testing.T) {
		_, _, wrote := try(t, changesSince["a page was changed"].harm)
		if total := contentBytes(manifest.Files); wrote > total/8 {
			t.Errorf("%d bytes are in use for it, of %d", wrote, total)
		}
	})
	t.Run("what is written later isn't shared", func(t *testing.T) {
		present, target, _ := try(t, func(*testing.T, string) {})
		before := bytesSum(readFile(t, filepath.Join(present, presentRelation)))
		writeAt(t, filepath.Join(target, presentRelation), randomBytes(1<<20, 5), 1<<20)
		if bytesSum(readFile(t, filepath.Join(present, presentRelation))) != before {
			t.Error("the present directory has changed")
		}
	})
}
