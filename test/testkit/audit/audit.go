// Package audit counts what was asked of the API server of the test bed, by its audit log.
package audit

import (
	"bufio"
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Request is what the log has of one.
type Request struct {
	ID        string                    `json:"auditID"`
	Verb      string                    `json:"verb"`
	Stamp     time.Time                 `json:"requestReceivedTimestamp"`
	User      struct{ Username string } `json:"user"`
	ObjectRef struct {
		Resource, Namespace, Name, Subresource string
	} `json:"objectRef"`
}

// Reads tells that it changed nothing.
func (r Request) Reads() bool { return r.Verb == "get" || r.Verb == "list" || r.Verb == "watch" }

// Log is the file of the test bed that HOWDAH_PREFIX names. A test that needs it is skipped on another cluster.
func Log(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cache, "howdah/run", cmp.Or(os.Getenv("HOWDAH_PREFIX"), "howdah"), "audit.log")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the test bed's audit log is needed to count requests: %v", err)
	}
	return path
}

// Between are the requests about a namespace that came in from then until then. A watch is in the log twice, when it begins
// and when it ends.
func Between(t *testing.T, log, namespace string, from, to time.Time) (requests []Request) {
	t.Helper()
	file, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	known := map[string]bool{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r Request
		if json.Unmarshal(lines.Bytes(), &r) == nil && !r.Stamp.Before(from) && r.Stamp.Before(to) && r.ObjectRef.Namespace == namespace && !known[r.ID] {
			known[r.ID] = true
			requests = append(requests, r)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return requests
}
