package chaos

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/audit"
	"howdah.dev/howdah/test/testkit/place"
	"howdah.dev/howdah/test/testkit/writes"
)

// Figure is one thing that was measured of a cluster's life.
type Figure struct {
	What  string  `json:"what"`
	Unit  string  `json:"unit"`
	Value float64 `json:"value"`
}

// Creation makes a cluster of three, and measures how long its first row and its last replica take and what that asks of
// the API server.
func Creation(t *testing.T, version int32) (*Subject, []Figure) {
	t.Helper()
	log := audit.Log(t)
	s := newSubject(t, Async)
	s.AwaitTrue(&v1alpha1.BackupRepository{ObjectMeta: s.Meta("repo")}, v1alpha1.ConditionReady) // it is no part of the cluster
	began := time.Now()
	cluster := s.NewCluster(name, version)
	cluster.Spec.Instances = s.instances
	s.Must(s.Create(t.Context(), cluster))
	s.target = s.findTarget()
	s.until("the first row", recoveryTime, func(ctx context.Context) error { return writes.Prepare(ctx, s.target) })
	first := time.Since(began)
	s.awaitWhole()
	whole := time.Since(began)
	requests := audit.Between(t, log, s.Namespace, began, time.Now())
	t.Logf("requests to create one of 3, by whom:\n%s", byUser(requests, s.Namespace))
	suite, all := countRequests(requests, s.Namespace)
	return s, []Figure{
		{"first row after apply", "s", first.Seconds()},
		{"3 of 3 after apply", "s", whole.Seconds()},
		{"API requests to create one of 3, by everybody", "", float64(all)},
		{"API requests to create one of 3, by the suite and its pods", "", float64(suite)},
	}
}

// countRequests counts the requests of the suite and its pods, and those of all but this test, which is the administrator.
func countRequests(requests []audit.Request, namespace string) (suite, all int) {
	for _, r := range requests {
		user := r.User.Username
		if strings.HasPrefix(user, "system:serviceaccount:howdah-system:") || strings.HasPrefix(user, "system:serviceaccount:"+namespace+":") {
			suite++
		}
		if strings.HasPrefix(user, "system:") && user != "system:admin" {
			all++
		}
	}
	return suite, all
}

// byUser says how many requests each of those who count made, and of what kinds, the most first.
func byUser(requests []audit.Request, namespace string) string {
	kinds := map[string]map[string]int{}
	for _, r := range requests {
		if _, all := countRequests([]audit.Request{r}, namespace); all == 0 {
			continue
		}
		user := nodes.ReplaceAllString(strings.TrimPrefix(r.User.Username, "system:"), "node")
		if kinds[user] == nil {
			kinds[user] = map[string]int{}
		}
		kinds[user][""]++
		kinds[user][r.Verb+" "+strings.TrimSuffix(r.ObjectRef.Resource+"/"+r.ObjectRef.Subresource, "/")]++
	}
	byCount := func(counts func(string) int) func(a, b string) int {
		return func(a, b string) int { return cmp.Or(counts(b)-counts(a), strings.Compare(a, b)) }
	}
	var text strings.Builder
	for _, user := range slices.SortedFunc(maps.Keys(kinds), byCount(func(user string) int { return kinds[user][""] })) {
		of := kinds[user]
		fmt.Fprintf(&text, "%4d %s:", of[""], user)
		for _, kind := range slices.SortedFunc(maps.Keys(of), byCount(func(kind string) int { return of[kind] })) {
			if kind != "" {
				fmt.Fprintf(&text, " %d %s,", of[kind], kind)
			}
		}
		text.WriteString("\n")
	}
	return text.String()
}

// nodes are counted together.
var nodes = regexp.MustCompile(`^node:.*`)

// RollingRestart changes a parameter that takes a restart, and measures what clients notice.
func RollingRestart(t *testing.T, s *Subject) []Figure {
	t.Helper()
	r := &round{Subject: s.in(t)}
	r.until("the previous rows to be deleted", recoveryTime, func(ctx context.Context) error { return writes.Clear(ctx, r.target) })
	r.kept, r.fresh = r.client("kept", r.target, true), r.client("fresh", r.target, false)
	r.awaitRows(r.kept, rows)
	r.awaitRows(r.fresh, rows)
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: r.Meta(name)}
	began := time.Now()
	r.Merge(cluster, `{"spec":{"postgresql":{"parameters":{"max_connections":"133"}}}}`)
	r.AwaitTrue(cluster, v1alpha1.ConditionUpToDate)
	r.awaitWhole()
	whole := time.Now()
	r.awaitRows(r.kept, rows)
	r.awaitRows(r.fresh, rows)
	r.began, r.acted = began, began
	result := r.judge(whole)
	if result.LostRows > 0 {
		t.Errorf("%d rows are lost", result.LostRows)
	}
	return []Figure{
		{"rolling restart of 3, in all", "s", whole.Sub(began).Seconds()},
		{"gap of it over a kept connection", "s", result.GapSeconds},
		{"gap of it over new connections", "s", result.NewConnectionGap},
	}
}

// Twenty makes as many single instances at once, and measures how long it takes until all are Ready, and what the
// controllers need of memory then.
func Twenty(t *testing.T, version int32) []Figure {
	t.Helper()
	const count = 20
	s := newSubject(t, Async)
	began := time.Now()
	for i := range count {
		s.Must(s.Create(t.Context(), s.NewCluster(fmt.Sprintf("one-%d", i), version)))
	}
	s.until("all of them to be Ready", recoveryTime, func(ctx context.Context) error {
		clusters := &v1alpha1.PostgresClusterList{}
		if err := s.List(ctx, clusters, client.InNamespace(s.Namespace)); err != nil {
			return err
		}
		ready := len(slices.DeleteFunc(clusters.Items, func(c v1alpha1.PostgresCluster) bool {
			condition := place.Condition(&c, v1alpha1.ConditionReady)
			return condition == nil || condition.Status != metav1.ConditionTrue
		}))
		if ready < count {
			return fmt.Errorf("%d of %d are", ready, count)
		}
		return nil
	})
	figures := []Figure{{"20 single instances Ready after apply", "s", time.Since(began).Seconds()}}
	for _, program := range []string{"db-controller", "backup-controller", "restore-controller", "upgrade-controller", "pooler-controller", "drill-controller"} {
		for _, mib := range residentMiB(t, program) {
			figures = append(figures, Figure{program + " with 20 clusters", "MiB", mib})
		}
	}
	return figures
}

// residentMiB is what processes of a program hold in memory. The nodes' processes are this machine's, too.
func residentMiB(t *testing.T, program string) (sizes []float64) {
	t.Helper()
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		exe, err := os.Readlink(folder + "/exe")
		if err != nil || filepath.Base(exe) != program {
			continue
		}
		status, err := os.ReadFile(folder + "/status")
		if err != nil {
			continue // it has ended
		}
		for line := range strings.Lines(string(status)) {
			if fields := strings.Fields(line); fields[0] == "VmRSS:" {
				kib, err := strconv.ParseFloat(fields[1], 64)
				if err != nil {
					t.Fatal(err)
				}
				sizes = append(sizes, kib/1024)
			}
		}
	}
	return sizes
}
