//go:build e2e

package e2e

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"howdah.dev/apis/v1alpha1"
)

// request is what the audit log has of one.
type request struct {
	Verb      string                    `json:"verb"`
	Stamp     time.Time                 `json:"requestReceivedTimestamp"`
	User      struct{ Username string } `json:"user"`
	ObjectRef struct {
		Resource, Namespace, Name, Subresource string
	} `json:"objectRef"`
}

// auditLog is the API server's, of the test bed.
func auditLog(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	name := os.Getenv("HOWDAH_PREFIX")
	if name == "" {
		name = "howdah"
	}
	path := filepath.Join(cache, "howdah/run", name, "audit.log")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the test bed's audit log is needed to count writes: %v", err)
	}
	return path
}

func TestAnIdleClusterCausesNoWrites(t *testing.T) {
	t.Parallel()
	log := auditLog(t)
	b := newBed(t, "minio")
	// The database is to be idle too: what a young one vacuums and analyzes by itself is WAL that is archived, and news.
	cluster := b.NewCluster("shop", 17)
	cluster.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{"autovacuum": "off", "checkpoint_timeout": "30min"}
	b.Must(b.Create(t.Context(), cluster))
	b.AwaitTrue(cluster, v1alpha1.ConditionReady)
	b.AwaitTrue(cluster, v1alpha1.ConditionArchiving)
	b.Backup("base", "shop")
	b.SQL("shop", "CHECKPOINT", "SELECT pg_switch_wal()")
	// What was archived last is published once a minute at most, so the last news may come that late.
	const calm, window = 90 * time.Second, time.Minute
	version, since := "", time.Now()
	b.Await(cluster, "its status to rest", func() bool {
		if cluster.ResourceVersion != version {
			version, since = cluster.ResourceVersion, time.Now()
		}
		return time.Since(since) > calm
	})
	from := time.Now()
	<-time.After(window) // what is measured, not waited for
	writes := writesSince(t, log, b.Namespace, from)
	if len(writes) > 0 {
		t.Errorf("in %s of idleness the suite wrote:\n%s", window, strings.Join(writes, "\n"))
	}
}

// writesSince are the writes of the suite and of the cluster's own pods to a namespace.
func writesSince(t *testing.T, log, namespace string, from time.Time) []string {
	t.Helper()
	file, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var writes []string
	reads, lines := 0, bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil || r.Stamp.Before(from) || r.ObjectRef.Namespace != namespace {
			continue
		}
		user := r.User.Username
		if !strings.HasPrefix(user, "system:serviceaccount:howdah-system:") && !strings.HasPrefix(user, "system:serviceaccount:"+namespace+":") {
			continue
		}
		if slices.Contains([]string{"get", "list", "watch"}, r.Verb) {
			reads++
			continue
		}
		if r.ObjectRef.Resource != "leases" {
			writes = append(writes, user+" "+r.Verb+" "+r.ObjectRef.Resource+"/"+r.ObjectRef.Name+" "+r.ObjectRef.Subresource)
		}
	}
	t.Logf("%d reads meanwhile", reads)
	return writes
}
