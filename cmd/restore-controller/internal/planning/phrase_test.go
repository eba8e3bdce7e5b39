package planning

import (
	"strings"
	"testing"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pitrtest"
)

func TestTheControllerDecidesAndPhrasesEveryCaseOfTheTable(t *testing.T) {
	for _, c := range pitrtest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			store := mem.New()
			c.Fill(t, store)
			q := Question{Cluster: pitrtest.Cluster, Namespace: pitrtest.Namespace, ClusterUID: pitrtest.UID, Target: c.Target}
			if c.BackupID != "" {
				q = Question{Lineage: pitrtest.First, BackupID: c.BackupID, Target: c.Target}
			}
			report, err := Read(t.Context(), store, q, func() time.Time { return c.Facts.Read })
			if err != nil {
				t.Fatal(err)
			}
			v := pitr.Decide(report.Candidates, c.Target, c.Facts)
			c.Want.Check(t, v)
			if v.Code != pitr.Reachable {
				checkSentence(t, &c, v)
			}
		})
	}
}

func checkSentence(t *testing.T, c *pitrtest.Case, v pitr.Verdict) {
	t.Helper()
	reason, message := Phrase(v, "cluster shop", c.Facts.Now)
	wantReason := v1alpha1.ReasonTargetUnreachable
	switch {
	case v.Code == pitr.NotArchivedYet:
		wantReason = v1alpha1.ReasonAwaitingWAL
	case v.Code == pitr.NoBackup && len(v.Damaged) > 0:
		wantReason = v1alpha1.ReasonDataCorrupt
	case v.Code == pitr.NoBackup:
		wantReason = v1alpha1.ReasonBackupNotFound
	}
	if reason != wantReason {
		t.Errorf("the reason is %s, want %s", reason, wantReason)
	}
	if lags := strings.Contains(message, "archiving lags behind"); lags != (!v.Until.IsZero() && !v.Until.After(c.Facts.Now)) {
		t.Errorf("until %s: %s", v.Until, message)
	}
	want := c.Want
	parts := map[pitr.Code][]string{
		pitr.NotArchivedYet:   {"is beyond the end of the archive (LSN 0/", ", last commit at 2026-03-01T12:1", ":00Z). Waiting for the cluster to archive "},
		pitr.InFuture:         {"spec.target.time", "is in the future (it is 2026-03-01T12:58:00Z now)"},
		pitr.HistoryMissing:   {postgres.HistoryName(want.Unlinked), "Set spec.target.timeline: 1"},
		pitr.BackupIncomplete: {want.Backup, want.Missing}, pitr.Gap: {want.Missing, "the last commit before it is at"},
		pitr.BeyondEnd:          {"is beyond the end of the archive of cluster shop", "the last commit in it is at"},
		pitr.PointAmbiguous:     {"spec.target.lsn", "0/C00080 (2026-03-01T12:12:00Z) and 0/D00080"},
		pitr.PointNotFound:      {"pg_create_restore_point"},
		pitr.BeforeOldestBackup: {"Cluster shop can't be restored to", "its oldest backup ("},
		pitr.NoBackupOnTimeline: {"No backup of cluster shop leads to timeline"}, pitr.NoBackup: {"backup of cluster shop"},
	}[v.Code]
	for _, part := range append(parts, c.Lineages[0].Damaged...) {
		if !strings.Contains(message, part) {
			t.Errorf("%q is missing in: %s", part, message)
		}
	}
	if len(parts) == 0 || strings.Contains(message, "--") || !strings.HasSuffix(message, ".") {
		t.Errorf("%s: %s", v.Code, message)
	}
}
