// Package hostile reads buckets that mean harm, with what controllers, Jobs and the command line read with, each in a process of its
// own whose memory is measured: it must stay below the limit that the chart sets for a controller.
package hostile

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/inventory"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/folder"
	"howdah.dev/howdah/pkg/objstore/open"
	"howdah.dev/howdah/pkg/objstore/retry"
)

// The variables by which a child knows what to read.
const (
	readerVariable = "HOSTILE_READER"
	bucketVariable = "HOSTILE_BUCKET"
	targetVariable = "HOSTILE_TARGET"
)

// readers are the ways in which a bucket is read. Each fails on a hostile one.
var readers = map[string]func(ctx context.Context, store objstore.Store, target string) error{
	"inventory of the backup-controller": func(ctx context.Context, store objstore.Store, _ string) error {
		lineages, err := inventory.NewReader().Read(ctx, store)
		if err == nil && len(lineages) == 1 && len(lineages[0].Damaged) == 1 {
			return errors.New("the backup is damaged")
		}
		return err
	},
	"header for the restore-controller": func(ctx context.Context, store objstore.Store, _ string) error {
		_, err := backup.ReadHeader(ctx, store, lineage, id)
		return err
	},
	"Job of a verification": func(ctx context.Context, store objstore.Store, _ string) error {
		verified, err := backup.VerifyBackup(ctx, store, lineage, id, backup.VerifyOptions{})
		return errors.Join(err, asError(verified))
	},
	"Job of a restore": func(ctx context.Context, store objstore.Store, target string) error {
		m, err := backup.ReadManifest(ctx, store, lineage, id)
		if err != nil {
			return err
		}
		return backup.Restore(ctx, store, m, target, backup.RestoreOptions{})
	},
}

func TestMain(m *testing.M) {
	name := os.Getenv(readerVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	debug.SetGCPercent(25) // as controllers do
	err := read(readers[name])
	status, errStatus := os.ReadFile("/proc/self/status")
	peak := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if errStatus != nil || peak == nil {
		panic(fmt.Sprint("no peak of memory: ", errStatus))
	}
	fmt.Printf("peak=%s refused=%t error=%v\n", peak[1], err != nil, err)
	os.Exit(0)
}

// read is what the child does.
func read(reader func(context.Context, objstore.Store, string) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	store, err := openBucket(ctx, os.Getenv(bucketVariable))
	if err != nil {
		return err
	}
	return reader(ctx, store, os.Getenv(targetVariable))
}

func openBucket(ctx context.Context, place string) (objstore.Store, error) {
	if strings.HasPrefix(place, "http://") {
		return open.With(ctx, objstore.Config{
			Driver: objstore.DriverAWS, Endpoint: place, Insecure: true, Region: "us-east-1", Bucket: "bucket", PathStyle: true,
			Credentials: &objstore.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"},
		}, retry.Policy{MaxElapsed: time.Nanosecond})
	}
	store, err := folder.Open(place)
	if err != nil {
		return nil, err
	}
	var keys *objstore.Encryption
	if _, err := os.Stat(filepath.Join(place, "keys")); err == nil {
		keys = &objstore.Encryption{Entries: objstore.KeyEntries{"k1": []byte(keyHex)}}
	}
	return open.Sealed(store, keys), nil
}

// limit of the memory of a controller, in KiB, as the chart says.
func limit(t *testing.T) int {
	t.Helper()
	content, err := os.ReadFile("../../charts/howdah/values.yaml")
	must(t, err)
	values := struct {
		Controllers map[string]struct {
			Resources struct{ Limits struct{ Memory string } }
		}
	}{}
	must(t, yaml.Unmarshal(content, &values))
	mebibytes, err := strconv.Atoi(strings.TrimSuffix(values.Controllers["backup-controller"].Resources.Limits.Memory, "Mi"))
	must(t, err)
	return mebibytes << 10
}

// refuses says that a reader takes nothing of a bucket.
func refuses(t *testing.T, reader, place string) {
	t.Helper()
	if out := run(t, reader, place); !strings.Contains(out, "refused=true") {
		t.Errorf("it was taken: %s", out)
	}
}

// run runs a reader in a process of its own, and returns what that says.
func run(t *testing.T, reader, place string) string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	above := t.TempDir()
	child := exec.CommandContext(t.Context(), self)
	child.Env = append(os.Environ(), readerVariable+"="+reader, bucketVariable+"="+place, targetVariable+"="+filepath.Join(above, "x", "pgdata"))
	must(t, os.Mkdir(filepath.Join(above, "x"), 0o700))
	out, err := child.CombinedOutput()
	found := regexp.MustCompile(`peak=(\d+) refused=(\w+)`).FindStringSubmatch(string(out))
	if err != nil || found == nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if peak, _ := strconv.Atoi(found[1]); peak > limit(t) {
		t.Errorf("it took %d MiB of memory", peak>>10)
	}
	for _, outside := range []string{"outside", "x/outside"} {
		if _, err := os.Lstat(filepath.Join(above, outside)); err == nil {
			t.Errorf("%s was written outside of the target", outside)
		}
	}
	return string(out)
}

// What the others have in common with this one is not why they are refused.
func TestABucketThatMeansNoHarmIsRead(t *testing.T) {
	place := bucket(t, manifest(t, header(""), `{"path":"base","kind":"dir","mode":"0700","mtime":"2026-03-04T05:06:07Z"}`+"\n"))
	for reader := range readers {
		if reader == "Job of a verification" {
			continue // it misses the WAL
		}
		if out := run(t, reader, place); !strings.Contains(out, "refused=false") {
			t.Errorf("%s: %s", reader, out)
		}
	}
}

func TestEveryReaderRefusesAHostileBucketInLittleMemory(t *testing.T) {
	places := hostileBuckets(t)
	places["a repository that was moved"] = transplanted(t)
	for name, place := range places {
		for reader := range readers {
			if listsOnly(reader) && headIsFine(name) {
				continue // it doesn't read what is wrong
			}
			t.Run(name+"/"+reader, func(t *testing.T) { refuses(t, reader, place) })
		}
	}
}

// listsOnly says whether a reader reads headers only.
func listsOnly(reader string) bool { return !strings.HasPrefix(reader, "Job") }

// headIsFine says whether only the list of files means harm.
func headIsFine(name string) bool {
	for _, of := range []string{"a list", "a line", "a link", "a file"} {
		if strings.HasPrefix(name, of) {
			return true
		}
	}
	return false
}

// servers answer for the store.
var servers = map[string]http.HandlerFunc{
	"an endless body": func(w http.ResponseWriter, _ *http.Request) {
		for filling := []byte(strings.Repeat("x", 64<<10)); ; {
			if _, err := w.Write(filling); err != nil {
				return
			}
		}
	},
	"an endless list": func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("list-type") != "2" {
			http.Error(w, "<Error><Code>AccessDenied</Code></Error>", http.StatusForbidden)
			return
		}
		from, _ := strconv.Atoi(r.URL.Query().Get("continuation-token"))
		fmt.Fprint(w, `<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>`+strconv.Itoa(from+1000)+`</NextContinuationToken>`)
		for number := range 1000 {
			fmt.Fprintf(w, `<CommonPrefixes><Prefix>lineages/l%09d/</Prefix></CommonPrefixes>`, from+number)
		}
		fmt.Fprint(w, `</ListBucketResult>`)
	},
	"a slow answer": func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	},
	"a redirect": func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusTemporaryRedirect)
	},
}

func TestEveryReaderRefusesAHostileServerInLittleMemory(t *testing.T) {
	for name, handler := range servers {
		for reader := range readers {
			t.Run(name+"/"+reader, func(t *testing.T) {
				t.Parallel()
				server := httptest.NewServer(handler)
				defer server.Close()
				refuses(t, reader, server.URL)
			})
		}
	}
}
