//go:build s3

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/howdah-backup/internal/sample"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/minio/lockedbucket"
	"howdah.dev/howdah/pkg/objstore/open"
	"howdah.dev/howdah/pkg/objstore/storetest"
)

// wiped is a bucket with versions on a real server, in which everything was deleted or overwritten after a time. It returns the flags that lead
// there, and those for that time.
func wiped(t *testing.T, driver, data string) (place, then []string) {
	t.Helper()
	config := storetest.Server(t, driver)
	config.Bucket = fmt.Sprintf("wiped-%x", rand.Uint32())
	if _, made := lockedbucket.Make(t, config); !made {
		t.Skip("the server keeps no versions")
	}
	store, err := open.Open(t.Context(), config)
	must(t, err)
	sample.Claim(t, store, sample.Lineage, "shop")
	sample.Backup(t, store, sample.Lineage, "shop-first", data, 0, 2)
	for n := uint64(4); n <= 6; n++ {
		sample.Archive(t, store, sample.Lineage, n, sample.Begin.Add(90*time.Minute))
	}
	at, keys := time.Time{}, []string{}
	for info, err := range store.List(t.Context(), "", "") {
		must(t, err)
		keys = append(keys, info.Key)
		if info.Modified.After(at) {
			at = info.Modified
		}
	}
	for last := at; !last.After(at); { // until the server's clock has gone on
		must(t, store.Put(t.Context(), "tick", nil, objstore.PutOptions{}))
		info, err := store.Stat(t.Context(), "tick")
		must(t, err)
		last = info.Modified
	}
	for i, key := range keys {
		if i%2 == 0 {
			must(t, store.Delete(t.Context(), key))
		} else {
			must(t, store.Put(t.Context(), key, []byte("pay"), objstore.PutOptions{}))
		}
	}
	ca := filepath.Join(t.TempDir(), "ca.crt")
	must(t, os.WriteFile(ca, []byte(config.CABundle), 0o600))
	place = []string{
		"--driver", driver, "--endpoint", config.Endpoint, "--bucket", config.Bucket, "--prefix", config.Prefix, "--ca-file", ca, "--region", config.Region, "--path-style",
	}
	return place, []string{"--as-of", at.UTC().Format(time.RFC3339Nano)}
}

func TestABucketThatWasWipedIsListedVerifiedAndRestoredAsItWas(t *testing.T) {
	for _, driver := range []string{objstore.DriverAWS, objstore.DriverMinIO} {
		t.Run(driver, func(t *testing.T) {
			data := sample.Data(t)
			place, then := wiped(t, driver, data)
			run := func(args ...string) (string, int) {
				var out bytes.Buffer
				a := &app{out: &out, errOut: &out, now: time.Now, getenv: os.Getenv}
				status := a.execute(t.Context(), append(args, place...))
				return out.String(), status
			}
			asOf := func(args ...string) string {
				t.Helper()
				out, status := run(append(args, then...)...)
				if status != exitDone {
					t.Fatalf("%q: %d: %s", args, status, out)
				}
				return out
			}
			if out, status := run("verify", "--all"); status == exitDone || strings.Contains(out, "ok  ") {
				t.Errorf("nothing is wrong with it now: %s", out)
			}
			if out := asOf("list"); !strings.Contains(out, "shop-first") {
				t.Errorf("listed is %s", out)
			}
			if out := asOf("verify", "--all", "--wal"); !strings.Contains(out, "ok       "+sample.Lineage+"/shop-first") {
				t.Errorf("verified is %s", out)
			}
			dir := filepath.Join(t.TempDir(), "restored")
			asOf("restore", "shop-first", "--target-dir", dir, "--latest")
			for _, name := range []string{"base/5/16384", "sch\u00f6ne Daten/\u6570\u636e 1.conf"} {
				got, err := os.ReadFile(filepath.Join(dir, name))
				must(t, err)
				want, err := os.ReadFile(filepath.Join(data, name))
				must(t, err)
				if !bytes.Equal(got, want) {
					t.Errorf("%s is another one", name)
				}
			}
			settings, err := os.ReadFile(filepath.Join(dir, "postgresql.auto.conf"))
			must(t, err)
			if !strings.Contains(string(settings), "--as-of="+then[1]) {
				t.Errorf("recovery reads the bucket as it is: %s", settings)
			}
			segment := filepath.Join(t.TempDir(), sample.Segment(6))
			asOf("wal", "get", "--lineage", sample.Lineage, sample.Segment(6), segment)
			if got, err := os.ReadFile(segment); err != nil || string(got) != sample.Content(6) {
				t.Errorf("the last segment: %v", err)
			}
			if out, status := run(append([]string{"delete", "shop-first", "--yes"}, then...)...); status == exitDone {
				t.Errorf("the past was changed: %s", out)
			}
		})
	}
}
