//go:build e2e

package e2e

import (
	"testing"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

func TestRowsOfTheOpenSegmentAreRestoredFromTheBucketAlone(t *testing.T) {
	onlyInFull(t, "the agent's own tests restore an open segment")
	t.Parallel()
	b := newBed(t, "minio")
	shop, often := b.NewCluster("shop", 17), int32(1)
	shop.Spec.Archive.WALShipIntervalSeconds = &often
	shop.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{"archive_timeout": "1h"}
	b.Must(b.Create(t.Context(), shop))
	b.AwaitTrue(shop, v1alpha1.ConditionReady)
	b.SQL("shop", "CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 1000) AS n")
	b.Backup("base", "shop")
	b.SQL("shop", "INSERT INTO t SELECT n, 'after the backup' FROM generate_series(1, 1000) AS n")
	want, segment := b.SQL("shop", sum), b.SQL("shop", "SELECT pg_walfile_name(pg_current_wal_insert_lsn())")
	committed, err := time.Parse(time.RFC3339, b.SQL("shop", `SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`))
	b.Must(err)
	b.Await(shop, "the rows to be in the bucket", func() bool {
		archive := shop.Status.Archive
		return archive != nil && archive.CompleteUntil != nil && archive.CompleteUntil.After(committed)
	})

	restore := b.restoreOf("back", nil)
	restore.Spec.Source = v1alpha1.RestoreSource{Repository: &v1alpha1.RepositorySource{Name: "repo"}}
	b.Must(b.Create(t.Context(), restore))
	b.AwaitTrue(restore, v1alpha1.ConditionSucceeded)
	t.Log(place.Condition(restore, v1alpha1.ConditionSucceeded).Message)
	if got := b.SQL("back", sum); got != want {
		t.Errorf("the table has %s, not %s", got, want)
	}
	if b.SQL("shop", "SELECT last_archived_wal < '"+segment+"' FROM pg_stat_archiver") != "t" {
		t.Errorf("%s was archived whole meanwhile: this shows nothing", segment)
	}
}
