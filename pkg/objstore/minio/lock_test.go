//go:build s3

package minio_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/minio/lockedbucket"
	"howdah.dev/howdah/pkg/objstore/open"
	"howdah.dev/howdah/pkg/objstore/storetest"
)

// TestABucketWithAnObjectLock takes objects, hides those that are deleted, and says that it keeps them.
func TestABucketWithAnObjectLock(t *testing.T) {
	for _, driver := range []string{objstore.DriverAWS, objstore.DriverMinIO} {
		t.Run(driver, func(t *testing.T) {
			config := storetest.Server(t, driver)
			if kept, err := opened(t, config).Kept(t.Context()); err != nil || kept != (objstore.Kept{}) {
				t.Errorf("a bucket without versions: %+v, %v", kept, err)
			}
			config.Bucket = fmt.Sprintf("locked-%x", rand.Uint32())
			if _, made := lockedbucket.Make(t, config); !made {
				t.Skip("the server has no object lock")
			}
			store := opened(t, config)
			for _, body := range []string{"first", "second one", "third"} {
				if err := store.Put(t.Context(), "a/b", []byte(body), objstore.PutOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if err := store.Put(t.Context(), "a/b", nil, objstore.PutOptions{IfAbsent: true}); !errors.Is(err, objstore.ErrExists) {
				t.Errorf("a taken key: %v", err)
			}
			if err := store.Delete(t.Context(), "a/b"); err != nil {
				t.Fatal(err)
			}
			if _, err := store.Get(t.Context(), "a/b", 100); !errors.Is(err, objstore.ErrNotFound) {
				t.Errorf("after it was deleted: %v", err)
			}
			want := objstore.Kept{Versions: true, LockMode: "GOVERNANCE", LockFor: 24 * time.Hour, Objects: 3, Bytes: 20}
			if kept, err := store.Kept(t.Context()); err != nil || kept != want {
				t.Errorf("kept %+v, %v", kept, err)
			}
			if findings, _ := objstore.Probe(t.Context(), store, "t1"); len(findings) > 0 {
				t.Errorf("the probe finds %+v", findings)
			}
		})
	}
}

// TestABucketWithVersionsIsReadAsItWas, with both drivers.
func TestABucketWithVersionsIsReadAsItWas(t *testing.T) {
	for _, driver := range []string{objstore.DriverAWS, objstore.DriverMinIO} {
		t.Run(driver, func(t *testing.T) {
			config := storetest.Server(t, driver)
			if keeps, err := versioned(t, config).KeepsVersions(t.Context()); err != nil || keeps {
				t.Errorf("a bucket without versions: %t, %v", keeps, err)
			}
			config.Bucket = fmt.Sprintf("versions-%x", rand.Uint32())
			if _, made := lockedbucket.Make(t, config); !made {
				t.Skip("the server keeps no versions")
			}
			storetest.Versions(t, versioned(t, config))
			shown := asOf(t, config, time.Now().Add(time.Hour))
			if _, err := shown.Get(t.Context(), "v/a/b", 100); !errors.Is(err, objstore.ErrNotFound) {
				t.Errorf("what is deleted is there at last: %v", err)
			}
			if _, err := asOf(t, config, time.Now().Add(-time.Hour)).Get(t.Context(), "v/c", 100); !errors.Is(err, objstore.ErrNotFound) {
				t.Errorf("it was there before it was put: %v", err)
			}
			found := slices.Collect(func(yield func(objstore.Version) bool) {
				for v, err := range versioned(t, config).Versions(t.Context(), "v/c", "") {
					if err != nil || !yield(v) {
						return
					}
				}
			})
			then := slices.IndexFunc(found, func(v objstore.Version) bool { return !v.Deleted })
			body, err := asOf(t, config, found[then].Modified).Get(t.Context(), "v/c", 100)
			if err != nil || string(body) != "other" {
				t.Errorf("when it was put: %q, %v", body, err)
			}
		})
	}
}

func versioned(t *testing.T, config objstore.Config) objstore.Versioned {
	t.Helper()
	store, is := opened(t, config).(objstore.Versioned)
	if !is {
		t.Fatal("the driver knows no versions")
	}
	return store
}

func asOf(t *testing.T, config objstore.Config, at time.Time) objstore.Store {
	t.Helper()
	config.AsOf, config.ReadOnly = &at, true
	store, err := open.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func opened(t *testing.T, config objstore.Config) objstore.Store {
	t.Helper()
	store, err := open.Plain(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return store
}
