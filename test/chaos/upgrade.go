package chaos

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/writes"
)

// gigabyte makes a table of that size.
const gigabyte = `CREATE TABLE filler AS SELECT n, repeat(md5(n::text), 32) AS text FROM generate_series(1, 930000) AS n`

// MajorUpgrade takes a cluster of three with 1 GB to a higher major version, and measures what clients notice.
func MajorUpgrade(t *testing.T, version, to int32) []Figure {
	t.Helper()
	s := New(t, Options{Replication: Async, Version: version})
	s.fill()
	r := &round{Subject: s}
	r.kept, r.fresh = r.client("kept", r.target, true), r.client("fresh", r.target, false)
	r.awaitRows(r.kept, rows)
	r.awaitRows(r.fresh, rows)
	upgrade := &v1alpha1.Upgrade{ObjectMeta: s.Meta("up"), Spec: v1alpha1.UpgradeSpec{
		Cluster: v1alpha1.LocalReference{Name: name}, Version: to,
	}}
	r.strike()
	r.Must(r.Create(t.Context(), upgrade))
	r.until("the new version to run", mend, func(ctx context.Context) error {
		cluster := &v1alpha1.PostgresCluster{ObjectMeta: s.Meta(name)}
		if err := r.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		if cluster.Status.MajorVersion != to {
			return fmt.Errorf("%d runs", cluster.Status.MajorVersion)
		}
		return nil
	})
	r.awaitWhole()
	whole := time.Now()
	r.awaitRows(r.kept, rows)
	r.awaitRows(r.fresh, rows)
	result := r.judge(whole)
	if result.LostRows > 0 {
		t.Errorf("%d rows are lost", result.LostRows)
	}
	r.AwaitTrue(upgrade, v1alpha1.ConditionSucceeded)
	return []Figure{
		{fmt.Sprintf("major upgrade of 3 with 1 GB from %d to %d, in all", version, to), "s", whole.Sub(r.began).Seconds()},
		{"gap of the upgrade over a kept connection", "s", result.GapSeconds},
		{"gap of the upgrade over new connections", "s", result.NewConnectionGap},
	}
}

// fill makes the data of an upgrade, and waits until replicas have it.
func (s *Subject) fill() {
	s.Helper()
	s.until("1 GB of rows", mend, func(ctx context.Context) error {
		conn, err := s.target.Connect(ctx)
		if err != nil {
			return err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		for _, statement := range []string{"DROP TABLE IF EXISTS filler", gigabyte, "CREATE INDEX ON filler (n)"} {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	s.Must(writes.Clear(s.Context(), s.target))
	s.awaitWhole()
}
