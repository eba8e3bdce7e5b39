package survey

import (
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/backup/repository"
	"howdah.dev/howdah/test/testkit/buckettest"
)

func TestATimelineWithoutItsHistoryIsNamedAndNotPassedOver(t *testing.T) {
	store := failedOver(t)
	for _, name := range []string{"00000002.history", "00000003.history"} {
		if err := store.Delete(t.Context(), repository.HistoryPrefix(buckettest.Lineage)+name); err != nil {
			t.Fatal(err)
		}
	}
	for name, q := range map[string]Question{
		"of a cluster":  {Cluster: "shop", Namespace: "demo"},
		"from a backup": {Lineage: buckettest.Lineage, BackupID: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			v := Judge(Report{Lineages: []Lineage{*read(t, store, q)}}, Target{}, dead)
			if !strings.Contains(v.Refusal, "the history of timeline 2 (00000002.history) is missing") ||
				!strings.Contains(v.Refusal, "write spec.target.timeline: 1") {
				t.Errorf("%+v", v)
			}
			q.Target = Target{Timeline: 1}
			if v := Judge(Report{Lineages: []Lineage{*read(t, store, q)}}, q.Target, dead); v.Choice == nil {
				t.Errorf("with the timeline said: %+v", v)
			}
			q.Target = Target{Immediate: true}
			if v := Judge(Report{Lineages: []Lineage{*read(t, store, q)}}, q.Target, dead); name == "from a backup" && v.Choice == nil {
				t.Errorf("to the end of the backup: %+v", v)
			}
		})
	}
}
