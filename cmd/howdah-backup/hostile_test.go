package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/test/testkit/hostiletest"
	"howdah.dev/howdah/test/testkit/subset"
)

const argumentsVariable = "HOSTILE_ARGUMENTS"

// TestChildOfHostileBuckets is a command line in a process of its own, whose memory is measured.
func TestChildOfHostileBuckets(t *testing.T) {
	var args []string
	if json.Unmarshal([]byte(os.Getenv(argumentsVariable)), &args) != nil {
		t.Skip("only for the measurement")
	}
	a := &app{in: os.Stdin, out: os.Stdout, errOut: os.Stderr, getenv: os.Getenv, now: time.Now}
	status := a.execute(t.Context(), args)
	fmt.Printf("peak=%d status=%d\n", hostiletest.Peak(t), status)
}

// refuses says that a command line ends with an error, takes little memory, and writes nothing outside of its target.
func refuses(t *testing.T, environment []string, args ...string) {
	t.Helper()
	above := t.TempDir()
	if args[0] == "restore" {
		args = append(args, "--immediate", "--target-dir", filepath.Join(above, "x", "pgdata"))
	}
	if err := os.Mkdir(filepath.Join(above, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	given, err := json.Marshal(append(args, "--quiet", "--patience", "1ns"))
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), self, "-test.run=^TestChildOfHostileBuckets$")
	child.Env = append(append(os.Environ(), environment...), argumentsVariable+"="+string(given), "GOGC=25")
	out, err := child.CombinedOutput()
	found := regexp.MustCompile(`peak=(\d+) status=(\d+)`).FindStringSubmatch(string(out))
	if err != nil || found == nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if peak, _ := strconv.Atoi(found[1]); peak > hostiletest.Limit(t) {
		t.Errorf("it took %d MiB of memory", peak>>10)
	}
	if found[2] == "0" {
		t.Errorf("it was taken: %s", out)
	}
	for _, outside := range []string{"outside", "x/outside", "x/pgdata"} {
		if _, err := os.Lstat(filepath.Join(above, outside)); err == nil {
			t.Errorf("%s was written", outside)
		}
	}
}

func TestTheCommandLineRefusesHostileBucketsInLittleMemory(t *testing.T) {
	subset.OneIn(t, 3)
	buckets := hostiletest.New(t)
	read := maps.Clone(buckets.Headers)
	maps.Copy(read, buckets.Files)
	maps.Copy(read, buckets.WAL)
	for kind, place := range read {
		environment := []string{"HOWDAH_FOLDER=" + place}
		if keys := hostiletest.Keys(place); keys != nil {
			file := filepath.Join(t.TempDir(), "k1")
			if err := os.WriteFile(file, keys.Entries["k1"], 0o600); err != nil {
				t.Fatal(err)
			}
			environment = append(environment, "HOWDAH_KEY_FILE="+file)
		}
		t.Run(kind+"/verify", func(t *testing.T) { refuses(t, environment, "verify", "--wal", hostiletest.ID) })
		t.Run(kind+"/restore", func(t *testing.T) { refuses(t, environment, "restore", hostiletest.ID) })
	}
	for kind, place := range buckets.Headers {
		if !strings.Contains(kind, "nobody") && !strings.Contains(kind, "moved") { // those need a key
			t.Run(kind+"/show", func(t *testing.T) { refuses(t, []string{"HOWDAH_FOLDER=" + place}, "show", hostiletest.ID) })
		}
	}
}

func TestTheCommandLineRefusesHostileServersInLittleMemory(t *testing.T) {
	for kind, handler := range hostiletest.Servers() {
		if kind == "a slow answer" {
			continue // a person sees that nothing comes, and ends it
		}
		for _, command := range []string{"list", "restore"} {
			t.Run(kind+"/"+command, func(t *testing.T) {
				t.Parallel()
				server := httptest.NewServer(handler)
				defer server.Close()
				environment := []string{
					"HOWDAH_ENDPOINT=" + server.URL, "HOWDAH_INSECURE=true", "HOWDAH_BUCKET=bucket", "HOWDAH_REGION=us-east-1",
					"AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=secret",
				}
				args := []string{command}
				if command == "restore" {
					args = append(args, hostiletest.ID)
				}
				refuses(t, environment, args...)
			})
		}
	}
}
