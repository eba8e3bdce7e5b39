package backup

import (
	"errors"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/workload"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func newBackup(name string, change ...func(*v1alpha1.Backup)) *v1alpha1.Backup {
	backup := &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "demo", UID: types.UID("uid-" + name), CreationTimestamp: metav1.Time{Time: noon}},
		Spec:       v1alpha1.BackupSpec{Cluster: v1alpha1.LocalReference{Name: "shop"}},
	}
	for _, c := range change {
		c(backup)
	}
	return backup
}

func planned(b *v1alpha1.Backup) {
	b.Status.Plan = &v1alpha1.BackupPlan{
		ID: backupID(b), Repository: "minio", Lineage: "7-g1", ClusterUID: "c", Instance: "shop-0", Volume: "data-shop-0", Node: "w1", Attempt: 1,
	}
}

func ended(b *v1alpha1.Backup)     { b.Status.CompletedAt = &metav1.Time{Time: noon} }
func deleted(b *v1alpha1.Backup)   { b.DeletionTimestamp = &metav1.Time{Time: noon} }
func held(b *v1alpha1.Backup)      { b.Spec.Hold = true }
func cancelled(b *v1alpha1.Backup) { b.Spec.Cancel = true }

func newCluster(change ...func(*v1alpha1.PostgresCluster)) *v1alpha1.PostgresCluster {
	cluster := &v1alpha1.PostgresCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "demo", UID: "c", Generation: 3},
		Spec:       v1alpha1.PostgresClusterSpec{Archive: &v1alpha1.ArchiveSpec{Repository: v1alpha1.LocalReference{Name: "minio"}}},
		Status: v1alpha1.PostgresClusterStatus{
			ObservedGeneration: 3, SystemIdentifier: "7", DataGeneration: "g1", Primary: "shop-0",
			Instances:  []v1alpha1.InstanceStatus{{Name: "shop-0", Node: "w1", Address: "10.0.0.7", Volume: "data-shop-0", Role: v1alpha1.RolePrimary, Ready: true}},
			Connection: &v1alpha1.ConnectionStatus{ConfigMap: "shop-connection", BackupSecret: "shop-backup"},
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
		},
	}
	for _, c := range change {
		c(cluster)
	}
	return cluster
}

func names(steps steps) []string {
	var all []string
	for _, step := range steps {
		name := runtime.FuncForPC(reflect.ValueOf(step).Pointer()).Name()
		all = append(all, strings.TrimSuffix(name[strings.LastIndex(name, ".")+1:], "-fm"))
	}
	return all
}

func TestThePlanFollowsFromWhatWasSeen(t *testing.T) {
	begin := "ensureFinalizer requireCluster requireArchive awaitTurn awaitRepository awaitCluster awaitPlace pinPlan"
	final := &agentapi.Outcome{Error: &agentapi.JobError{Reason: "DataCorrupt", Final: true}}
	for name, test := range map[string]struct {
		observed *observed
		want     string
	}{
		"a new one waits until it may begin":             {&observed{backup: newBackup("a")}, begin},
		"a planned one has its Job":                      {&observed{backup: newBackup("a", planned)}, "ensureJob awaitJob takeResult settle requireAttempts " + begin},
		"one whose data went elsewhere is planned anew":  {&observed{backup: newBackup("a", planned), outdated: "moved"}, "stopJob leaveQueue settle requireSameCluster requireAttempts " + begin},
		"one whose Job failed is tried again":            {&observed{backup: newBackup("a", planned), job: workload.State{Exists: true, Failed: true}}, "leaveQueue settle requireAttempts " + begin},
		"one whose Job failed for good has failed":       {&observed{backup: newBackup("a", planned), job: workload.State{Exists: true, Failed: true, Outcome: final}}, "leaveQueue tidy concludeFailed"},
		"a cancelled one stops":                          {&observed{backup: newBackup("a", planned, cancelled)}, "stopJob leaveQueue tidy concludeCancelled"},
		"one that has ended only clears away":            {&observed{backup: newBackup("a", planned, ended)}, "leaveQueue removeJob"},
		"cancelling after the end changes nothing":       {&observed{backup: newBackup("a", planned, ended, cancelled)}, "leaveQueue removeJob"},
		"a deleted one takes its data along":             {&observed{backup: newBackup("a", planned, ended, deleted)}, "stopJob leaveQueue deleteData removeFinalizer"},
		"a deleted one that is held waits":               {&observed{backup: newBackup("a", planned, ended, deleted, held)}, "leaveQueue removeJob awaitRelease"},
		"one that is held continues when it is deleted":  {&observed{backup: newBackup("a", planned, deleted, held)}, "ensureJob awaitJob takeResult settle requireAttempts " + begin},
		"one that is deleted while it runs stops before": {&observed{backup: newBackup("a", planned, deleted)}, "stopJob leaveQueue deleteData removeFinalizer"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(names((&Reconciler{}).plan(test.observed)), " "); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestOneBackupOfAClusterRunsAtATime(t *testing.T) {
	older := func(b *v1alpha1.Backup) { b.CreationTimestamp = metav1.Time{Time: noon.Add(-time.Hour)} }
	elsewhere := func(b *v1alpha1.Backup) { b.Spec.Cluster.Name = "other" }
	for name, test := range map[string]struct {
		others []*v1alpha1.Backup
		want   string
	}{
		"alone":                           {nil, ""},
		"an older one goes first":         {[]*v1alpha1.Backup{newBackup("b", older)}, "b"},
		"the UID decides between equals":  {[]*v1alpha1.Backup{newBackup("c"), newBackup("a")}, "a"},
		"one that runs goes before all":   {[]*v1alpha1.Backup{newBackup("a", older), newBackup("c", planned)}, "c"},
		"one that has ended doesn't":      {[]*v1alpha1.Backup{newBackup("a", older, planned, ended)}, ""},
		"one that is being deleted: no":   {[]*v1alpha1.Backup{newBackup("a", older, planned, deleted)}, ""},
		"one of another cluster: neither": {[]*v1alpha1.Backup{newBackup("a", older, planned, elsewhere)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			me, all := newBackup("b2"), []v1alpha1.Backup{}
			for _, other := range append(test.others, me) {
				all = append(all, *other)
			}
			got := ""
			if first := ahead(me, all); first != nil {
				got = first.Name
			}
			if got != test.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestAPlanIsOutdatedWhenWhatItReadsIsNotThere(t *testing.T) {
	for name, test := range map[string]struct {
		cluster *v1alpha1.PostgresCluster
		want    string
	}{
		"all as it was":                 {newCluster(), ""},
		"the cluster was deleted":       {nil, "the PostgresCluster was deleted"},
		"the cluster is another":        {newCluster(func(c *v1alpha1.PostgresCluster) { c.UID = "d" }), "the PostgresCluster was deleted and created again"},
		"a restore in place":            {newCluster(func(c *v1alpha1.PostgresCluster) { c.Status.DataGeneration = "g2" }), "the cluster has run on other data since it began"},
		"another node":                  {newCluster(func(c *v1alpha1.PostgresCluster) { c.Status.Instances[0].Node = "w2" }), "instance shop-0 has moved to node w2"},
		"another repository":            {newCluster(func(c *v1alpha1.PostgresCluster) { c.Spec.Archive.Repository.Name = "b" }), "the cluster now archives to another repository"},
		"a pod that is being restarted": {newCluster(func(c *v1alpha1.PostgresCluster) { c.Status.Instances[0].Node, c.Status.Instances[0].Ready = "", false }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := outdated(newBackup("a", planned).Status.Plan, test.cluster); got != test.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestAJobThatWillNotEndIsGivenUp(t *testing.T) {
	long, moment := workload.State{Exists: true, LivePods: 1, WithoutNode: noon.Add(-time.Hour)}, workload.State{Exists: true, LivePods: 1, WithoutNode: noon}
	lost := workload.State{Exists: true, LivePods: 1, Overdue: noon.Add(-time.Hour)}
	hasPod := func(c *v1alpha1.PostgresCluster) { c.Status.Instances[0].PodUID = "p" }
	scaledIn := func(c *v1alpha1.PostgresCluster) { c.Status.Instances[0].Name = "shop-1" }
	for name, test := range map[string]struct {
		job     workload.State
		cluster *v1alpha1.PostgresCluster
		want    string
	}{
		"it runs":                                     {workload.State{Exists: true, LivePods: 1}, newCluster(), ""},
		"its node is lost":                            {lost, newCluster(hasPod), "node w1, where its pod runs, does not respond"},
		"no room on the node":                         {long, newCluster(hasPod), ""},
		"its instance is replaced, a moment ago":      {moment, newCluster(), ""},
		"the volume of its instance is being deleted": {long, newCluster(), "instance shop-0 has no pod, and the Job's pod can't be scheduled"},
		"its instance is gone":                        {long, newCluster(hasPod, scaledIn), "instance shop-0 has no pod, and the Job's pod can't be scheduled"},
	} {
		o := &observed{backup: newBackup("a", planned), job: test.job, cluster: test.cluster, now: noon}
		if got := o.unreachable(); got != test.want {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestAClusterThatCannotBeBackedUpSaysWhy(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, reason, message string) func(*v1alpha1.PostgresCluster) {
		return func(c *v1alpha1.PostgresCluster) {
			flow.SetCondition(&c.Status.Conditions, c, kind, status, reason, message)
		}
	}
	down := condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonUnavailable, "It is starting.")
	for name, test := range map[string]struct {
		cluster *v1alpha1.PostgresCluster
		want    string
	}{
		"ready":                              {newCluster(), ""},
		"not ready":                          {newCluster(down), "it is not Ready: It is starting."},
		"an older status":                    {newCluster(func(c *v1alpha1.PostgresCluster) { c.Generation = 4 }), "the db-controller has not yet acted on its latest change."},
		"being deleted, with its primary up": {newCluster(down, func(c *v1alpha1.PostgresCluster) { c.DeletionTimestamp = &metav1.Time{Time: noon} }), ""},
		"being deleted, with its primary down": {newCluster(down, func(c *v1alpha1.PostgresCluster) {
			c.DeletionTimestamp, c.Status.Instances[0].Ready = &metav1.Time{Time: noon}, false
		}), "its primary does not accept connections."},
		"without a system identifier":     {newCluster(func(c *v1alpha1.PostgresCluster) { c.Status.SystemIdentifier = "" }), "its status does not yet say where its data is."},
		"at an address that nobody knows": {newCluster(func(c *v1alpha1.PostgresCluster) { c.Status.Instances[0].Address = "" }), "its status does not yet say where its data is."},
		"with WAL that piles up": {newCluster(condition(v1alpha1.ConditionArchiving, metav1.ConditionFalse, v1alpha1.ReasonArchiveFailing, "The bucket is full.")),
			"its WAL does not reach the archive, and a backup needs that WAL: The bucket is full."},
	} {
		t.Run(name, func(t *testing.T) {
			if got := notReady(test.cluster); got != test.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestNamesAndIDsFollowFromTheObject(t *testing.T) {
	long := newBackup(strings.Repeat("b", 56))
	if name := jobName(long, maxAttempts); len(name) > 63 {
		t.Errorf("%s has %d characters", name, len(name))
	}
	if name := jobName(newBackup("a"), 2); name != "a-backup-2" {
		t.Error(name)
	}
	if jobName(long, 1) == jobName(long, 2) {
		t.Error("two attempts have one Job")
	}
	a, b := newBackup("a"), newBackup("a", func(b *v1alpha1.Backup) { b.UID = "other" })
	if backupID(a) == backupID(b) || backupID(a) != backupID(newBackup("a")) {
		t.Errorf("ids %s and %s", backupID(a), backupID(b))
	}
	if !strings.HasPrefix(backupID(a), "20260701T120000Z-a-") {
		t.Errorf("id %s", backupID(a))
	}
}

func TestTheEndIsReportedOnceAndStays(t *testing.T) {
	backup := newBackup("a", planned)
	o := &observed{backup: backup, now: noon.Add(10 * time.Second)}
	backup.Status.StartedAt = &metav1.Time{Time: noon}
	outcome := o.complete(agentapi.BackupResult{
		Version: "17.5", StopTime: noon, LogicalBytes: 2 << 30, StoredBytes: 300 << 20,
	})
	report(o, outcome)
	want := "Backed up 2.0 GiB in 10s (204.8 MiB/s). It takes 300.0 MiB in the bucket, and can be restored to any time from 2026-07-01T12:00:00Z on."
	condition := backup.Status.Conditions[0]
	if condition.Status != metav1.ConditionTrue || condition.Reason != v1alpha1.ReasonCompleted || condition.Message != want {
		t.Errorf("got %+v", condition)
	}
	backup.Generation = 5
	before := slices.Clone(backup.Status.Conditions)
	report(&observed{backup: backup, endedBefore: true}, flow.Next)
	if !reflect.DeepEqual(before, backup.Status.Conditions) || backup.Status.ObservedGeneration != 5 {
		t.Errorf("got %+v", backup.Status)
	}
}

func TestReportOfWhatIsNotTheEnd(t *testing.T) {
	for name, test := range map[string]struct {
		outcome flow.Outcome
		want    metav1.ConditionStatus
	}{
		"waiting is unknown":          {flow.Wait(v1alpha1.ReasonQueued, "x"), metav1.ConditionUnknown},
		"an error is unknown":         {flow.Retry(errSomething), metav1.ConditionUnknown},
		"a recorded plan is unknown":  {flow.Save(v1alpha1.ReasonRunning, "x"), metav1.ConditionUnknown},
		"the end without success":     {flow.Stop(v1alpha1.ReasonNoArchive, "x"), metav1.ConditionFalse},
		"a blocked deletion is false": {flow.Wait(v1alpha1.ReasonDeletionBlocked, "x"), metav1.ConditionFalse},
	} {
		t.Run(name, func(t *testing.T) {
			backup := newBackup("a")
			report(&observed{backup: backup}, test.outcome)
			if got := backup.Status.Conditions[0]; got.Status != test.want || got.Reason != test.outcome.Reason {
				t.Errorf("got %+v", got)
			}
		})
	}
}

var errSomething = errors.New("something")

func TestProgressAloneWakesNobody(t *testing.T) {
	progress := func(phase string, done int64) *v1alpha1.Backup {
		return newBackup("a", planned, func(b *v1alpha1.Backup) {
			b.ResourceVersion = time.Duration(done).String()
			b.Status.Progress = &v1alpha1.Progress{Phase: phase, DoneBytes: done}
		})
	}
	if !reflect.DeepEqual(withoutProgress(progress("Copying", 1)), withoutProgress(progress("Copying", 2))) {
		t.Error("bytes wake the controller")
	}
	if reflect.DeepEqual(withoutProgress(progress("Copying", 1)), withoutProgress(progress("AwaitWAL", 1))) {
		t.Error("a new phase doesn't wake the controller")
	}
}

func TestAJobOnANodeThatDoesNotAnswerIsWaitedForOnlyBeforeItsDataIsDeleted(t *testing.T) {
	lost := workload.State{Exists: true, LivePods: 1, Overdue: noon}
	for name, test := range map[string]struct {
		backup *v1alpha1.Backup
		job    workload.State
		want   bool
	}{
		"no Job":                              {newBackup("a", planned), workload.State{}, true},
		"a Job that runs":                     {newBackup("a", planned), workload.State{Exists: true, LivePods: 1}, false},
		"a Job that is lost":                  {newBackup("a", planned), lost, true},
		"a Job of a cancelled one":            {newBackup("a", planned, cancelled), lost, true},
		"a Job of one that is being deleted":  {newBackup("a", planned, deleted), lost, false},
		"no Job of one that is being deleted": {newBackup("a", planned, deleted), workload.State{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := &observed{backup: test.backup, now: noon.Add(2 * time.Minute)}
			if got := o.stopped(test.job); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestABackupWithDamagedPagesSucceedsAndSaysWhichTheyAre(t *testing.T) {
	o := &observed{backup: newBackup("a", planned), now: noon}
	outcome := o.complete(agentapi.BackupResult{
		Version: "17.5", StopTime: noon, LogicalBytes: 1 << 20, DamagedPages: 12, Damaged: []agentapi.DamagedPage{{File: "base/5/16385", Block: 7}},
	})
	report(o, outcome)
	status := o.backup.Status
	intact := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionPagesIntact)
	if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionSucceeded) || intact == nil || intact.Status != metav1.ConditionFalse ||
		!strings.HasPrefix(intact.Message, "12 pages of the database fail their checksum, such as block 7 of base/5/16385,") {
		t.Errorf("conditions %+v", status.Conditions)
	}
	if status.DamagedPages == nil || status.DamagedPages.Count != 12 || len(status.DamagedPages.Pages) != 1 {
		t.Errorf("status lists %+v", status.DamagedPages)
	}
}
