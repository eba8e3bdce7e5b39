package backup

import (
	"encoding/json"
	"testing"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup"
)

// Whoever can write to a bucket chooses the times in it.
func TestAFoundBackupHasEndedWhateverItsRecordSays(t *testing.T) {
	for name, stopped := range map[string]time.Time{"a time": noon.Add(-time.Hour), "no time": {}} {
		b := newBackup("a", func(b *v1alpha1.Backup) {
			b.Spec.Found = &v1alpha1.FoundBackup{Repository: "minio", Lineage: "7-g1", ID: "x"}
		})
		o := &observed{backup: b, now: noon}
		o.adopt(b.Spec.Found, &backup.Header{ID: "x", Lineage: "7-g1", StopTime: stopped})
		written, err := json.Marshal(b.Status)
		if err != nil {
			t.Fatal(err)
		}
		read := v1alpha1.BackupStatus{}
		if err := json.Unmarshal(written, &read); err != nil {
			t.Fatal(err)
		}
		switch ended := read.CompletedAt; {
		case ended == nil:
			t.Errorf("%s: it has not ended, and is adopted again", name)
		case !stopped.IsZero() && !ended.Time.Equal(stopped):
			t.Errorf("%s: it ended at %s", name, ended)
		}
	}
}
