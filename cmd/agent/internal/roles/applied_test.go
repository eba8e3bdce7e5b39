//go:build postgres

package roles

import (
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// etcd may have been restored from a backup, or the pod of the new primary have an old configuration.
func TestAnOlderSpecDropsNothing(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	b := newBed(t, pgtest.Installed(t)[0])
	declare := func(uid string, generation int64, declared agentapi.Declared) string {
		problems, err := Declare(t.Context(), b.local, Desired{
			Declared: declared, Source: Source{ClusterUID: uid, Generation: generation}, Major: b.major, Database: "shop", Owner: "app",
		})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(problems, "; ")
	}
	there := agentapi.Declared{Databases: []agentapi.Database{{Name: "d"}}, Roles: []agentapi.Role{role("r", nil)}}
	gone := agentapi.Declared{Databases: []agentapi.Database{{Name: "d", Absent: true}}, Roles: []agentapi.Role{role("r", func(r *agentapi.Role) { r.Absent = true })}}
	if got := declare("u", 3, there) + declare("u", 4, gone) + declare("u", 4, gone); got != "" {
		t.Fatal(got)
	}
	b.expect("SELECT count(*) FROM pg_database WHERE datname = 'd'", "0")
	if got := declare("u", 6, there); got != "" {
		t.Fatal(got)
	}
	got := declare("u", 4, gone)
	for _, want := range []string{"database d: it is declared absent by generation 4 of the PostgresCluster, and generation 6 has been applied before", "role r: it is declared absent by generation 4"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
	if got := declare("u", 5, there); got != "" { // what is only created or changed is as ever
		t.Error(got)
	}
	b.expect("SELECT count(*) FROM pg_database WHERE datname = 'd'", "1")
	// Nothing is declared any more, and what was dropped once is created by hand.
	if err := Undeclared(t.Context(), b.local, Source{ClusterUID: "u", Generation: 9}); err != nil {
		t.Fatal(err)
	}
	if got := declare("u", 8, gone); !strings.Contains(got, "generation 9") {
		t.Error(got)
	}
	// Another cluster took the volume over: its generations have begun anew.
	if got := declare("v", 1, gone); got != "" {
		t.Error(got)
	}
	b.expect("SELECT count(*) FROM pg_database WHERE datname = 'd'", "0")
}

func TestNothingIsRecordedWhereNothingWasDeclared(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	b := newBed(t, pgtest.Installed(t)[0])
	if err := Undeclared(t.Context(), b.local, Source{ClusterUID: "u", Generation: 9}); err != nil {
		t.Fatal(err)
	}
	b.expect("SELECT count(*) FROM pg_namespace WHERE nspname = 'howdah_declared'", "0")
}
