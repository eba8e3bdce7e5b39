package firstbackup

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/finalbackup"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

// promoted is a standby that was promoted and archives.
func promoted(changes ...func(*observed.Cluster)) *observed.Cluster {
	return observedtest.Running(func(o *observed.Cluster) {
		observedtest.Archiving(o)
		o.Cluster.Status.Archive = &v1alpha1.ArchiveStatus{Repository: "minio", Lineage: "7-g1"}
		o.Cluster.Status.Standby = &v1alpha1.StandbyStatus{PromotedAt: &metav1.Time{Time: observedtest.Noon.Add(-time.Minute)}}
		observedtest.All(changes...)(o)
	})
}

// asked has the backup requested for the attempt, and its Backup say this.
func asked(attempt int, status metav1.ConditionStatus) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		request := &v1alpha1.BackupRequest{Cluster: "shop", ClusterUID: "u1", Purpose: v1alpha1.PurposeFirst, Token: protocol.Token("u1", attempt)}
		o.Cluster.Status.BackupRequest = request
		o.FirstBackup = &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.BackupSpec{RequestedBy: &v1alpha1.Requester{Token: request.Token}}}
		o.FirstBackup.Status.CompletedAt = &metav1.Time{Time: o.Now.Add(-time.Minute)}
		o.FirstBackup.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionSucceeded, Status: status, Message: "Said."}}
	}
}

func inventory(name string, restorable bool) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		found := v1alpha1.LineageStatus{Name: name, Backups: 1}
		if restorable {
			found.RecoverableFrom = &metav1.Time{Time: observedtest.Noon}
		}
		o.Repository.Status.Lineages = []v1alpha1.LineageStatus{{Name: "7-g0", Backups: 4, RecoverableFrom: &metav1.Time{}}, found}
	}
}

func TestAPromotedStandbyIsBackedUpOnce(t *testing.T) {
	done := func(o *observed.Cluster) {
		o.Cluster.Status.Standby.FirstBackup = &v1alpha1.StandbyFirstBackup{Name: "b"}
	}
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		// kind of the outcome, and the token of the request that stands then; empty: none does.
		kind  flow.Kind
		token string
		taken bool
		says  string
	}{
		"nothing was requested yet":              {nil, flow.KindSave, "u1.0", false, "Until it is complete"},
		"it runs":                                {asked(0, metav1.ConditionUnknown), flow.KindNext, "u1.0", false, "Said."},
		"it has succeeded":                       {asked(0, metav1.ConditionTrue), flow.KindSave, "", true, "Backup b of the lineage"},
		"it has failed just now":                 {asked(1, metav1.ConditionFalse), flow.KindWait, "u1.1", false, "has failed: Said. It is tried again at 12:01:00 UTC"},
		"it has failed a while ago":              {asked(0, metav1.ConditionFalse), flow.KindSave, "u1.1", false, ""},
		"it is recorded":                         {done, flow.KindNext, "", true, "Backup b of"},
		"it is recorded, and the request stands": {observedtest.All(asked(0, metav1.ConditionTrue), done), flow.KindSave, "", true, ""},
		"status is of an etcd before":            {inventory("7-g1", true), flow.KindSave, "", true, "The repository has a backup"},
		"that one can't be restored":             {inventory("7-g1", false), flow.KindSave, "u1.0", false, ""},
		"that one is of the source":              {inventory("7-g0", true), flow.KindSave, "u1.0", false, ""},
		"the lineage isn't known":                {func(o *observed.Cluster) { o.Cluster.Status.Archive.Lineage = "" }, flow.KindNext, "", false, "once the cluster accepts connections"},
		"another repository is about to be used": {func(o *observed.Cluster) { o.Cluster.Spec.Archive.Repository.Name = "other" }, flow.KindNext, "", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := promoted(observedtest.OrNothing(c.change))
			outcome := Request(t.Context(), o)
			token := ""
			if request := o.Cluster.Status.BackupRequest; request != nil {
				token = request.Token
			}
			if taken := o.Cluster.Status.Standby.FirstBackup != nil; outcome.Kind != c.kind || token != c.token || taken != c.taken {
				t.Errorf("%+v, requested %q, taken %t", outcome, token, taken)
			}
			conditions := map[string]condition.Finding{}
			Report(o, conditions)
			if found := conditions[v1alpha1.ConditionFirstBackupTaken]; (found.Status == metav1.ConditionTrue) != c.taken || !strings.Contains(found.Message, c.says) {
				t.Errorf("condition: %+v", found)
			}
		})
	}
}

func TestOnlyAPromotedStandbyThatArchivesIsBackedUp(t *testing.T) {
	for name, change := range map[string]func(*observed.Cluster){
		"it doesn't archive":  func(o *observed.Cluster) { o.Cluster.Spec.Archive = nil },
		"it isn't promoted":   func(o *observed.Cluster) { o.Cluster.Status.Standby.PromotedAt = nil },
		"it never was one":    func(o *observed.Cluster) { o.Cluster.Status.Standby = nil },
		"it doesn't any more": func(o *observed.Cluster) { asked(0, metav1.ConditionUnknown)(o); o.Cluster.Spec.Archive = nil },
	} {
		t.Run(name, func(t *testing.T) {
			o, conditions := promoted(change), map[string]condition.Finding{}
			o.Cluster.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFirstBackupTaken}}
			Request(context.Background(), o)
			if Report(o, conditions); o.Cluster.Status.BackupRequest != nil || len(conditions) > 0 || len(o.Cluster.Status.Conditions) > 0 {
				t.Errorf("%+v, %+v, %+v", o.Cluster.Status.BackupRequest, conditions, o.Cluster.Status.Conditions)
			}
		})
	}
}

// The last backup has what was written until the deletion, and the first one doesn't.
func TestTheFirstBackupDoesNotCountAsTheFinalOne(t *testing.T) {
	o := promoted(asked(0, metav1.ConditionTrue), func(o *observed.Cluster) { o.Cluster.DeletionTimestamp = &metav1.Time{Time: observedtest.Noon} })
	if finalbackup.Taken(o) || !finalbackup.Due(o) {
		t.Error("the cluster is deleted without a final backup")
	}
	if outcome := finalbackup.Request(t.Context(), o); outcome.Kind != flow.KindSave || o.Cluster.Status.BackupRequest.Purpose != v1alpha1.PurposeFinal {
		t.Errorf("%+v, %+v", outcome, o.Cluster.Status.BackupRequest)
	}
}
