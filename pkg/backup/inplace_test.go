package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

// inPlace restores over what is in a directory, and returns how far it came. compared: what it lacks is found out first.
func inPlace(t testing.TB, store objstore.Store, manifest *Manifest, target string, compared bool, opts RestoreOptions) (last Progress) {
	t.Helper()
	opts.InPlace, opts.Progress = true, func(p Progress) { last = p }
	if compared {
		opts.Difference = compare(t, store, manifest, target, opts)
	}
	must(t, Restore(t.Context(), store, manifest, target, opts))
	if last.Done != last.Total || last.Taken > last.Done {
		t.Errorf("it ended at %+v", last)
	}
	if d := opts.Difference; d != nil && (d.Bytes+d.Same != last.Total || d.Same != last.Taken) {
		t.Errorf("%d bytes were missing and %d not, and it ended at %+v", d.Bytes, d.Same, last)
	}
	return last
}

// compare checks that it changes nothing.
func compare(t testing.TB, store objstore.Store, manifest *Manifest, target string, opts RestoreOptions) *Difference {
	t.Helper()
	before := describe(t, target, []string{"pipe"})
	difference, err := Compare(t.Context(), store, manifest, target, opts)
	must(t, err)
	after := describe(t, target, []string{"pipe"})
	for name, text := range before {
		if after[name] != text {
			t.Errorf("%q has become %.80q, it was %.80q", name, after[name], text)
		}
	}
	if len(after) != len(before) {
		t.Errorf("there are %d files, there were %d", len(after), len(before))
	}
	return difference
}

func fresh(t testing.TB, store objstore.Store, manifest *Manifest) string {
	t.Helper()
	target := filepath.Join(t.TempDir(), "fresh")
	must(t, Restore(t.Context(), store, manifest, target, RestoreOptions{}))
	return target
}

func TestARestoreInPlaceLeavesWhatIsTheSame(t *testing.T) {
	leaveOutForRaces(t)
	store, dir := mem.New(), pgdata(t)
	write(t, dir, presentRelation, relationPages(4<<20/postgres.PageSize, pagesPerSegment, 100, 1), 0o600)
	manifest := mustWrite(t, store, dir, "b1")
	want := fresh(t, store, manifest)
	for name, test := range changesSince {
		for _, compared := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, compared %t", name, compared), func(t *testing.T) {
				target := copyOf(t, dir)
				test.harm(t, target)
				last := inPlace(t, store, manifest, target, compared, RestoreOptions{})
				same(t, want, target)
				if all := last.Taken == last.Total && last.Stored == 0; all != test.all {
					t.Errorf("everything was there: %t, at %+v", all, last)
				}
				if none := last.Taken == 0; none != test.none {
					t.Errorf("nothing was there: %t, at %+v", none, last)
				}
			})
		}
	}
	t.Run("it is missing", func(t *testing.T) {
		target := filepath.Join(t.TempDir(), "nothing")
		must(t, Restore(t.Context(), store, manifest, target, RestoreOptions{InPlace: true}))
		same(t, want, target)
	})
}

func TestARestoreInPlaceWritesOnlyWhatIsOther(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	write(t, dir, presentRelation, relationPages(4<<20/postgres.PageSize, pagesPerSegment, 100, 1), 0o600)
	manifest := mustWrite(t, store, dir, "b1")
	target := copyOf(t, dir)
	changesSince["a page was changed"].harm(t, target)
	before := inodes(t, target)
	last := inPlace(t, store, manifest, target, true, RestoreOptions{})
	if written := last.Total - last.Taken; written <= 0 || written > 2*minFrame || last.Stored > 2*minFrame {
		t.Errorf("%d bytes were written, at %+v", written, last)
	}
	for name, inode := range inodes(t, target) {
		if before[name] != inode && name != "backup_label" {
			t.Errorf("%s was made anew", name)
		}
	}
}

func inodes(t *testing.T, dir string) map[string]uint64 {
	t.Helper()
	all := map[string]uint64{}
	must(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		name, _ := filepath.Rel(dir, path)
		all[name] = stateOf(info).inode
		return err
	}))
	return all
}

// TestWhatIsOutsideIsNotTouchedByARestoreInPlace has names in the target that lead elsewhere.
func TestWhatIsOutsideIsNotTouchedByARestoreInPlace(t *testing.T) {
	leaveOutForRaces(t)
	store, dir := mem.New(), pgdata(t)
	manifest := mustWrite(t, store, dir, "b1")
	want := fresh(t, store, manifest)
	for name, lead := range map[string]func(target, outside string) error{
		"a file that is a link": func(target, outside string) error {
			return relink(filepath.Join(outside, "base/5/16384"), filepath.Join(target, "base/5/16384"))
		},
		"a folder that is a link": func(target, outside string) error {
			return relink(filepath.Join(outside, "base/5"), filepath.Join(target, "base/5"))
		},
		"a link to a folder of the target itself": func(target, _ string) error {
			must(t, os.Rename(filepath.Join(target, "base/5"), filepath.Join(target, "base/6")))
			return os.Symlink("6", filepath.Join(target, "base/5"))
		},
		"a link that leads elsewhere": func(target, outside string) error {
			return relink(filepath.Join(outside, "noise"), filepath.Join(target, "link.conf"))
		},
		"a file with a second name": func(target, outside string) error {
			must(t, os.Remove(filepath.Join(target, "base/5/16384")))
			return os.Link(filepath.Join(outside, "base/5/16384"), filepath.Join(target, "base/5/16384"))
		},
		"the backup's own files": func(target, outside string) error {
			return errors.Join(os.Symlink(filepath.Join(outside, "noise"), filepath.Join(target, "backup_label")),
				os.Symlink(filepath.Join(outside, "noise"), filepath.Join(target, "tablespace_map")))
		},
		"files that the backup doesn't have": func(target, outside string) error {
			return errors.Join(os.Symlink(outside, filepath.Join(target, "more")), os.Symlink(outside, filepath.Join(target, "pg_wal/more")),
				os.Symlink(outside, filepath.Join(target, "pg_tblspc/16500")))
		},
	} {
		for _, harmed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, harmed %t", name, harmed), func(t *testing.T) {
				target, outside := copyOf(t, dir), copyOf(t, dir)
				if harmed {
					must(t, os.Truncate(filepath.Join(outside, "base/5/16384"), 8192))
				}
				must(t, lead(target, outside))
				before := describe(t, outside, nil)
				inPlace(t, store, manifest, target, harmed, RestoreOptions{})
				same(t, want, target)
				for name, text := range describe(t, outside, nil) {
					if before[name] != text {
						t.Errorf("%s outside has become %.80q, it was %.80q", name, text, before[name])
					}
				}
			})
		}
	}
}

func relink(to, path string) error { return errors.Join(os.RemoveAll(path), os.Symlink(to, path)) }

func TestARestoreInPlaceChangesTablespacesToo(t *testing.T) {
	store, dir, elsewhere := mem.New(), pgdata(t), t.TempDir()
	write(t, elsewhere, "PG_17_202406281/5/16500", relationPages(200, 0, 100, 6), 0o600)
	must(t, os.Symlink(elsewhere, filepath.Join(dir, "pg_tblspc/16500")))
	manifest := mustWrite(t, store, dir, "b1")
	for _, compared := range []bool{false, true} {
		t.Run(fmt.Sprintf("elsewhere, compared %t", compared), func(t *testing.T) {
			target, space := copyOf(t, dir), copyOf(t, elsewhere)
			must(t, relink(space, filepath.Join(target, "pg_tblspc/16500")))
			writeAt(t, filepath.Join(space, "PG_17_202406281/5/16500"), []byte("other"), 9000)
			write(t, space, "PG_17_202406281/5/16501", []byte("more"), 0o600)
			last := inPlace(t, store, manifest, target, compared, RestoreOptions{Tablespaces: map[string]string{"16500": space}})
			same(t, elsewhere, space)
			same(t, dir, target, "backup_label", "tablespace_map", "pg_wal", "pg_replslot", "pg_tblspc")
			if link, err := os.Readlink(filepath.Join(target, "pg_tblspc/16500")); link != space || err != nil {
				t.Errorf("it leads to %q, %v", link, err)
			}
			if last.Taken == 0 || last.Taken == last.Total {
				t.Errorf("it ended at %+v", last)
			}
		})
	}
	t.Run("as a folder", func(t *testing.T) {
		target := copyOf(t, dir)
		before := describe(t, elsewhere, nil)
		inPlace(t, store, manifest, target, true, RestoreOptions{})
		same(t, fresh(t, store, manifest), target)
		last := inPlace(t, store, manifest, target, true, RestoreOptions{})
		if same(t, elsewhere, filepath.Join(target, "pg_tblspc/16500")+"/", "."); last.Taken != last.Total {
			t.Errorf("the second time it ended at %+v", last)
		}
		for name, text := range describe(t, elsewhere, nil) {
			if before[name] != text {
				t.Errorf("%s has become %q", name, text)
			}
		}
	})
}

func TestWhatIsMissingInPlaceIsKnownToBeReadableBefore(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	write(t, dir, presentRelation, relationPages(4<<20/postgres.PageSize, pagesPerSegment, 100, 1), 0o600)
	manifest := mustWrite(t, store, dir, "b1")
	for _, key := range keys(t, store) {
		if contains([]string{key}, "/packs/") {
			must(t, store.Delete(t.Context(), key))
		}
	}
	target := copyOf(t, dir)
	if d := compare(t, store, manifest, target, RestoreOptions{}); d.Bytes != 0 {
		t.Errorf("%d bytes are missing", d.Bytes)
	}
	changesSince["a page was changed"].harm(t, target)
	if _, err := Compare(t.Context(), store, manifest, target, RestoreOptions{}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a page is other, and the store lacks it: %v", err)
	}
}

func TestATargetThatHasChangedSinceItWasComparedIsRefused(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	write(t, dir, presentRelation, relationPages(200, pagesPerSegment, 100, 1), 0o600)
	manifest := mustWrite(t, store, dir, "b1")
	target := copyOf(t, dir)
	difference := compare(t, store, manifest, target, RestoreOptions{})
	moved := target + ".moved"
	must(t, os.Rename(target, moved))
	for _, test := range []struct { // one after the other, and this one first: there is no content without the name
		name string
		harm func()
	}{
		{"content", func() { changesSince["a page was changed"].harm(t, moved) }},
		{"name", func() { must(t, os.Remove(filepath.Join(moved, presentRelation))) }},
	} {
		test.harm()
		before := describe(t, moved, nil)
		err := Restore(t.Context(), store, manifest, moved, RestoreOptions{InPlace: true, Difference: difference})
		if !errors.Is(err, ErrTarget) {
			t.Errorf("%s: %v", test.name, err)
		}
		if after := describe(t, moved, nil); len(after) != len(before) {
			t.Errorf("%s: something was removed", test.name)
		}
	}
}

// mischief changes a directory at random in any way that a file system has.
func mischief(t testing.TB, random *rand.Rand, dir string) {
	var paths []string
	must(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		paths = append(paths, path)
		return err
	}))
	for range 1 + random.IntN(30) {
		path := paths[1+random.IntN(len(paths)-1)]
		info, err := os.Lstat(path)
		if err != nil {
			continue // it was below another that is gone
		}
		switch file := info.Mode().IsRegular(); random.IntN(11) {
		case 0, 1, 2:
			if file && info.Size() > 0 {
				writeAt(t, path, randomBytes(1+random.IntN(20000), random.Uint64()), random.Int64N(info.Size()))
			}
		case 3:
			if file {
				must(t, os.Truncate(path, random.Int64N(2*info.Size()+2)))
			}
		case 4:
			must(t, os.RemoveAll(path))
		case 5:
			must(t, errors.Join(os.RemoveAll(path), os.Mkdir(path, 0o700), os.WriteFile(path+"/in", []byte("x"), 0o600)))
		case 6:
			must(t, relink(paths[random.IntN(len(paths))], path))
		case 7:
			must(t, errors.Join(os.RemoveAll(path), unix.Mkfifo(path, 0o600)))
		case 8:
			if info.Mode().Type() != fs.ModeSymlink {
				must(t, os.Chmod(path, fs.FileMode(random.IntN(0o1000))))
			}
		case 9:
			if second := path + ".second"; file {
				must(t, errors.Join(os.RemoveAll(second), os.Link(path, second)))
			}
		case 10:
			write(t, filepath.Dir(path), fmt.Sprint("stray", random.IntN(9)), []byte("x"), 0o600)
		}
	}
}

// TestWhateverIsInPlaceTheRestoredTreeIsThatOfTheBackup takes random data, random harm and runs that die, each of which continues
// with what the last one left.
func TestWhateverIsInPlaceTheRestoredTreeIsThatOfTheBackup(t *testing.T) {
	leaveOutForRaces(t)
	base := uint64(os.Getpid()) << 8
	for seed := base; seed < base+6; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t, seed, false)
			var manifests []*Manifest
			parent := ""
			for range 4 {
				for range 5 {
					d.change()
				}
				m, _ := d.backup(parent)
				manifests, parent = append(manifests, m), m.ID
			}
			target := copyOf(t, d.dir)
			for range 12 {
				manifest := manifests[d.random.IntN(len(manifests))]
				mischief(t, d.random, target)
				for range d.random.IntN(3) {
					broken := crashing(d.store, 1+d.random.IntN(4), d.random.IntN(2) == 0)
					opts := RestoreOptions{InPlace: true}
					var err error
					if d.random.IntN(2) == 0 {
						opts.Difference, err = Compare(t.Context(), d.store, manifest, target, RestoreOptions{})
						must(t, err)
					}
					if err := Restore(t.Context(), broken, manifest, target, opts); err != nil && !errors.Is(err, errCrash) {
						t.Fatal(err)
					}
				}
				inPlace(t, d.store, manifest, target, d.random.IntN(2) == 0, RestoreOptions{})
				same(t, fresh(t, d.store, manifest), target)
			}
		})
	}
}

// TestHolesOfFilesInPlaceBecomeZero also where the file system can't make any.
func TestHolesOfFilesInPlaceBecomeZero(t *testing.T) {
	part := func(from, length int64) Part { return Part{FileOffset: from, Length: uint32(length)} }
	f := &File{Path: "16384", Kind: Regular, Size: 900000, Parts: []Part{part(100, 1000), part(300000, 8192), part(308192, 8192)}}
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	for _, size := range []int64{0, 50, 100, 1100, 200000, 310000, 316384, 900000, 2000000} {
		write(t, dir, f.Path, slices.Repeat([]byte{1}, int(size)), 0o600)
		must(t, blank(f, root, f.Path, size))
		content := readFile(t, filepath.Join(dir, f.Path))
		if int64(len(content)) != min(size, 316384) {
			t.Errorf("%d bytes have become %d", size, len(content))
		}
		for i, b := range content {
			if held := i >= 100 && i < 1100 || i >= 300000; held != (b == 1) {
				t.Fatalf("of %d bytes the one at %d is %d", size, i, b)
			}
		}
	}
}
