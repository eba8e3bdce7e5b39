//go:build integration

package restore

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/mortal"
)

// lastJobs are how the two Jobs of a restore into a running cluster end; nil: they run on.
type lastJobs struct{ check, work *agentapi.Outcome }

func failedWith(reason, message string) *agentapi.Outcome {
	return &agentapi.Outcome{Error: &agentapi.JobError{Reason: reason, Message: message, Final: true}}
}

func wellDone() lastJobs {
	return lastJobs{
		check: outcomeOf(agentapi.TablesResult{Checked: true, Role: "shop", Database: "shop"}),
		work: outcomeOf(agentapi.TablesResult{
			Role: "shop", Database: "shop", Restored: []string{"public.orders"}, RestoredCount: 1, Rows: 7, Bytes: 70, Seconds: 2, NotRestored: []string{"view public.open_orders"},
		}),
	}
}

// newIntoLab has a running cluster shop, and a Job of the copy that ends well.
func newIntoLab(t *testing.T, last lastJobs) *lab {
	t.Helper()
	l := newLab(t)
	l.createWithStatus(&v1alpha1.PostgresCluster{ObjectMeta: l.meta("shop"), Spec: v1alpha1.PostgresClusterSpec{Version: 17, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")}}}, func(o client.Object) {
		status := &o.(*v1alpha1.PostgresCluster).Status
		status.ObservedGeneration, status.MajorVersion, status.Image, status.DataGeneration = 1, 17, "postgres:17", "g0"
		status.Conditions = conditions(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning)
	})
	login := &corev1.Secret{ObjectMeta: l.meta("shop-app"), Data: map[string][]byte{"username": []byte("shop"), "password": []byte("x")}}
	if err := l.Create(context.Background(), login); err != nil {
		t.Fatal(err)
	}
	l.jobsEnd(last)
	return l
}

func (l *lab) jobsEnd(last lastJobs) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.each = func(job *batchv1.Job, restores []v1alpha1.Restore) *agentapi.Outcome {
		switch {
		case strings.HasSuffix(job.Name, "-check-restore"):
			return last.check
		case job.Name == "r-restore":
			return last.work
		}
		for i := range restores {
			if restores[i].Name+"-restore" == job.Name {
				outcome := success(&restores[i])
				return &outcome
			}
		}
		return nil
	}
}

func into(change func(*v1alpha1.IntoCluster)) func(*v1alpha1.RestoreSpec) {
	return func(spec *v1alpha1.RestoreSpec) {
		wanted := &v1alpha1.IntoCluster{Name: "shop", Tables: []v1alpha1.QualifiedName{"public.orders"}}
		if change != nil {
			change(wanted)
		}
		spec.Destination = v1alpha1.RestoreDestination{IntoCluster: wanted}
	}
}

// leavesNothing: neither the copy nor its Restore is there, and the running cluster is.
func (l *lab) leavesNothing() {
	l.Helper()
	restores, clusters := &v1alpha1.RestoreList{}, &v1alpha1.PostgresClusterList{}
	for _, list := range []client.ObjectList{restores, clusters} {
		if err := l.List(context.Background(), list, client.InNamespace(l.ns)); err != nil {
			l.Fatal(err)
		}
	}
	for _, restore := range restores.Items {
		if restore.Name != "r" {
			l.Errorf("Restore %s is left: %+v", restore.Name, restore.Status)
		}
	}
	if len(clusters.Items) != 1 || clusters.Items[0].Name != "shop" {
		l.Errorf("%d PostgresClusters are there", len(clusters.Items))
	}
}

func TestARestoreIntoAClusterLeavesNoCopy(t *testing.T) {
	l := newIntoLab(t, wellDone())
	restore := l.restore(into(nil))
	message := l.await(restore, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	if !strings.Contains(message, "1 tables, views and sequences with 7 rows were restored into database shop") || !strings.Contains(message, "view public.open_orders") {
		t.Error(message)
	}
	status := restore.Status
	if status.Plan == nil || status.Plan.BackupID != "b" || status.Reached == nil || status.IntoCluster.Role != "shop" || status.IntoCluster.CheckedAt == nil ||
		status.IntoCluster.CommittedAt == nil || status.VolumeLockRequest != nil {
		t.Errorf("status: %+v", status)
	}
	l.leavesNothing()
	work := &batchv1.Job{ObjectMeta: l.meta("r-restore")}
	if !l.there(work) || work.Spec.Template.Labels[v1alpha1.LabelComponent] != "table-restore" || work.Spec.Template.Labels[v1alpha1.LabelCluster] != "shop" {
		t.Errorf("Job: %+v", work.Spec.Template)
	}
	spec, config := agentapi.TablesJob{}, &corev1.ConfigMap{ObjectMeta: l.meta("r-restore")}
	if !l.there(config) || json.Unmarshal([]byte(config.Data["job.json"]), &spec) != nil || spec.Copy == nil || spec.Copy.SuperuserSecret != status.IntoCluster.Copy+"-superuser" {
		t.Errorf("job.json: %+v", spec)
	}
	if err := l.Delete(context.Background(), restore); err != nil {
		t.Fatal(err)
	}
	now := ""
	l.eventually("it is deleted", func() bool { return !l.there(restore) }, &now)
}

func TestARestoreIntoAClusterIsRefusedBeforeTheCopyIsRestored(t *testing.T) {
	last := wellDone()
	last.check = failedWith(v1alpha1.ReasonObjectExists, "database shop of the running cluster has public.orders")
	l := newIntoLab(t, last)
	restore := l.restore(into(nil))
	message := l.await(restore, metav1.ConditionFalse, v1alpha1.ReasonObjectExists)
	if !strings.Contains(message, "Database shop of the running cluster has public.orders.") || restore.Status.Plan != nil || restore.Status.IntoCluster.CopyUID != "" {
		t.Errorf("%s: %+v", message, restore.Status)
	}
	l.leavesNothing()
}

func TestARestoreIntoAClusterThatFailsLeavesNoCopy(t *testing.T) {
	last := wellDone()
	last.work = failedWith(v1alpha1.ReasonNotCopied, "a constraint doesn't hold. Nothing was restored")
	l := newIntoLab(t, last)
	restore := l.restore(into(nil))
	if message := l.await(restore, metav1.ConditionFalse, v1alpha1.ReasonNotCopied); !strings.Contains(message, "A constraint doesn't hold. Nothing was restored.") {
		t.Error(message)
	}
	l.leavesNothing()
}

func TestARestoreIntoAClusterThatIsCancelledLeavesNoCopy(t *testing.T) {
	last := wellDone()
	last.work = nil
	l := newIntoLab(t, last)
	restore := l.restore(into(nil))
	l.await(restore, metav1.ConditionUnknown, v1alpha1.ReasonCopyingTables)
	now := ""
	l.eventually("its Job runs", func() bool { return l.there(&batchv1.Job{ObjectMeta: l.meta("r-restore")}) }, &now)
	if err := l.Patch(context.Background(), restore, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"cancel":true}}`))); err != nil {
		t.Fatal(err)
	}
	if message := l.await(restore, metav1.ConditionFalse, v1alpha1.ReasonCancelled); !strings.Contains(message, "whether public.orders exists") {
		t.Error(message)
	}
	if l.there(&batchv1.Job{ObjectMeta: l.meta("r-restore")}) {
		t.Error("its Job is left")
	}
	l.leavesNothing()
}

func TestADeletedRestoreIntoAClusterLeavesNoCopy(t *testing.T) {
	last := wellDone()
	last.work = nil
	l := newIntoLab(t, last)
	restore := l.restore(into(nil))
	l.await(restore, metav1.ConditionUnknown, v1alpha1.ReasonCopyingTables)
	if err := l.Delete(context.Background(), restore); err != nil {
		t.Fatal(err)
	}
	now := ""
	l.eventually("it is deleted", func() bool { return !l.there(restore) }, &now)
	l.leavesNothing()
}

func TestAPlanOfARestoreIntoAClusterCopiesNothing(t *testing.T) {
	l := newIntoLab(t, wellDone())
	restore := l.restore(func(spec *v1alpha1.RestoreSpec) { into(nil)(spec); spec.Mode = v1alpha1.RestorePlanOnly })
	if message := l.await(restore, metav1.ConditionTrue, v1alpha1.ReasonCompleted); !strings.Contains(message, "can be reached: from backup b") {
		t.Error(message)
	}
	if l.there(&batchv1.Job{ObjectMeta: l.meta("r-restore")}) || restore.Status.IntoCluster.CheckedAt == nil {
		t.Errorf("status: %+v", restore.Status.IntoCluster)
	}
	l.leavesNothing()
}

func TestATargetThatACopyCantReachEndsARestoreIntoACluster(t *testing.T) {
	l := newIntoLab(t, wellDone())
	restore := l.restore(func(spec *v1alpha1.RestoreSpec) {
		into(nil)(spec)
		spec.Target = &v1alpha1.RestoreTarget{Time: "2020-01-01T00:00:00Z"}
	})
	if message := l.await(restore, metav1.ConditionFalse, v1alpha1.ReasonTargetUnreachable); !strings.Contains(message, "The temporary copy could not be restored: ") {
		t.Error(message)
	}
	l.leavesNothing()
}

func TestACrashAtAnyWriteOfARestoreIntoAClusterChangesNothing(t *testing.T) {
	caches := map[string]mortal.Behind{"behind on Restores": mortal.Only(&v1alpha1.Restore{}), "behind on the rest": mortal.AllBut(&v1alpha1.Restore{})}
	for name, behind := range mortal.Draw(caches) {
		t.Run(name, func(t *testing.T) {
			l := newIntoLab(t, wellDone())
			l.patience = 4 * time.Minute
			wrote := l.dieAtEachWrite(behind)
			restore := l.restore(into(nil))
			message := l.await(restore, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
			if writes := wrote(); len(writes) < 10 {
				t.Errorf("only %d processes died, with:\n%s", len(writes), strings.Join(writes, "\n"))
			}
			if !strings.Contains(message, "7 rows were restored") {
				t.Error(message)
			}
			l.leavesNothing()
		})
	}
}

func TestAnIntoClusterThatMakesNoSenseIsRefused(t *testing.T) {
	l := newLab(t)
	for name, test := range map[string]struct {
		change func(*v1alpha1.IntoCluster)
		says   string
	}{
		"tables and schemas":     {func(i *v1alpha1.IntoCluster) { i.Schemas = []v1alpha1.SchemaName{"sales"} }, "can't have both tables and schemas"},
		"a table without schema": {func(i *v1alpha1.IntoCluster) { i.Tables = []v1alpha1.QualifiedName{"orders"} }, "such as public.orders"},
		"a quoted table":         {func(i *v1alpha1.IntoCluster) { i.Tables = []v1alpha1.QualifiedName{`public."Orders"`} }, "without quotes"},
		"a table of PostgreSQL":  {func(i *v1alpha1.IntoCluster) { i.Tables = []v1alpha1.QualifiedName{"pg_catalog.pg_class"} }, "tables of PostgreSQL itself"},
		"a schema of PostgreSQL": {func(i *v1alpha1.IntoCluster) { i.Tables, i.Schemas = nil, []v1alpha1.SchemaName{"pg_toast"} }, "can't be one of PostgreSQL or Howdah itself"},
		"all into a schema":      {func(i *v1alpha1.IntoCluster) { i.Tables, i.IntoSchema = nil, "restored" }, "applies to tables, or to a single schema"},
		"two schemas into one": {func(i *v1alpha1.IntoCluster) {
			i.Tables, i.Schemas, i.IntoSchema = nil, []v1alpha1.SchemaName{"a", "b"}, "restored"
		}, "applies to tables, or to a single schema"},
		"template1":                {func(i *v1alpha1.IntoCluster) { i.IntoDatabase = "template1" }, "can't be template0 or template1"},
		"privileges that are what": {func(i *v1alpha1.IntoCluster) { i.Privileges = "Keep" }, "Omit"},
	} {
		restore := &v1alpha1.Restore{ObjectMeta: l.meta("x"), Spec: v1alpha1.RestoreSpec{Source: v1alpha1.RestoreSource{Backup: &v1alpha1.LocalReference{Name: "base"}}}}
		into(test.change)(&restore.Spec)
		if err := l.Create(context.Background(), restore); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	both := &v1alpha1.Restore{ObjectMeta: l.meta("x"), Spec: v1alpha1.RestoreSpec{Source: v1alpha1.RestoreSource{Backup: &v1alpha1.LocalReference{Name: "base"}}}}
	into(nil)(&both.Spec)
	both.Spec.Destination.InPlace = &v1alpha1.InPlace{Name: "shop"}
	if err := l.Create(context.Background(), both); err == nil || !strings.Contains(err.Error(), "exactly one of newCluster, inPlace and intoCluster") {
		t.Errorf("both: %v", err)
	}
}
