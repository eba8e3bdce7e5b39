package restore

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/workload"
)

// seenInto is of a Restore r of public.orders into the running cluster shop, which has begun.
func seenInto(change func(*observed)) *observed {
	o := seen(func(*observed) {})
	o.restore.Name = "r"
	o.restore.Spec.Destination = v1alpha1.RestoreDestination{IntoCluster: &v1alpha1.IntoCluster{Name: "shop", Tables: []v1alpha1.QualifiedName{"public.orders"}}}
	o.restore.Status.Cluster = &v1alpha1.CreatedCluster{Name: "shop", UID: "s"}
	o.restore.Status.IntoCluster = &v1alpha1.IntoClusterStatus{Copy: "shop-copy-12345678", Database: "shop"}
	o.restore.Status.StartedAt = &metav1.Time{Time: time.Unix(990, 0)}
	o.cluster = &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "s", Generation: 1}}
	o.cluster.Status = v1alpha1.PostgresClusterStatus{
		ObservedGeneration: 1, MajorVersion: 17, Image: "postgres:17", Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
	}
	change(o)
	return o
}

// outcome is that of a Job.
func outcomeOf(result any) *agentapi.Outcome {
	raw, _ := json.Marshal(result)
	return &agentapi.Outcome{Result: raw}
}

// copied gives the work a copy that runs.
func copied(o *observed) {
	o.restore.Status.IntoCluster.CopyUID, o.restore.Status.IntoCluster.CheckedAt = "k", &metav1.Time{Time: o.now}
	o.into.copy.Restore = &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "shop-copy-12345678", UID: "k"}}
	o.into.copy.Restore.Status.Plan = &v1alpha1.RestorePlan{MajorVersion: 15, BackupID: "b", Target: "the end of the archive"}
	o.restore.Status.Plan = o.into.copy.Restore.Status.Plan
	o.into.copy.Cluster = &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Name: "shop-copy-12345678"}}
	o.into.copy.Cluster.Status.Connection = &v1alpha1.ConnectionStatus{SuperuserSecret: "shop-copy-12345678-superuser"}
}

func TestWhatIsSeenDecidesWhatIsDoneIntoARunningCluster(t *testing.T) {
	const (
		normal  = "ensureFinalizer preflightInto beginInto ensureCheck awaitCheck takeCheck ensureCopy pinCopyPlan awaitCopy pinCopying ensureCopying awaitCopying takeCopied"
		cleanUp = "stopJob removeCheck removeCopy awaitCopyGone"
		giveUp  = "pinIntoFailure " + cleanUp + " concludeInto"
	)
	deleted, ended := metav1.NewTime(time.Unix(999, 0)), &metav1.Time{Time: time.Unix(999, 0)}
	failed := func(kind string) workload.State {
		return workload.State{Exists: true, Failed: true, Outcome: &agentapi.Outcome{Error: &agentapi.JobError{Reason: kind, Message: "x"}}}
	}
	for name, test := range map[string]struct {
		change func(*observed)
		want   string
	}{
		"a new one":                    {func(o *observed) { o.restore.Status = v1alpha1.RestoreStatus{} }, normal},
		"no such cluster":              {func(o *observed) { o.restore.Status = v1alpha1.RestoreStatus{}; o.cluster = nil }, normal},
		"it has begun":                 {func(*observed) {}, normal},
		"the check failed":             {func(o *observed) { o.into.check = failed(v1alpha1.ReasonObjectExists) }, giveUp},
		"the check failed once":        {func(o *observed) { o.into.check = failed(v1alpha1.ReasonObjectExists); o.into.check.LivePods = 1 }, normal},
		"a check of somebody else":     {func(o *observed) { o.into.check = workload.State{Foreign: true} }, giveUp},
		"the copy is restored":         {copied, normal},
		"the copy was deleted":         {func(o *observed) { copied(o); o.into.copy.Restore = nil }, giveUp},
		"the copy is being deleted":    {func(o *observed) { copied(o); o.into.copy.Restore.DeletionTimestamp = &deleted }, giveUp},
		"a copy of somebody else":      {func(o *observed) { o.into.copy.Foreign = true }, giveUp},
		"a copy of a later version":    {func(o *observed) { copied(o); o.into.copy.Restore.Status.Plan.MajorVersion = 18 }, giveUp},
		"the cluster was deleted":      {func(o *observed) { o.cluster = nil }, giveUp},
		"the cluster was replaced":     {func(o *observed) { o.cluster.UID = "t" }, giveUp},
		"the cluster is being deleted": {func(o *observed) { o.cluster.DeletionTimestamp = &deleted }, giveUp},
		"the copying failed":           {func(o *observed) { copied(o); o.job = failed(v1alpha1.ReasonNotCopied) }, giveUp},
		"cancelled":                    {func(o *observed) { copied(o); o.restore.Spec.Cancel = true }, giveUp},
		"cancelled when it was committed": {func(o *observed) {
			copied(o)
			o.restore.Spec.Cancel = true
			o.job = workload.State{Exists: true, Complete: true, Outcome: outcomeOf(agentapi.TablesResult{Rows: 1})}
		}, normal},
		"the cluster was deleted when it was committed": {func(o *observed) { copied(o); o.cluster = nil; o.restore.Status.IntoCluster.CommittedAt = ended }, cleanUp},
		"only a plan is wanted, and made":               {func(o *observed) { copied(o); o.restore.Spec.Mode = v1alpha1.RestorePlanOnly }, cleanUp},
		"only a plan is wanted, and the check runs": {func(o *observed) {
			o.restore.Spec.Mode = v1alpha1.RestorePlanOnly
			o.restore.Status.Plan = &v1alpha1.RestorePlan{}
		}, normal},
		"it is being deleted":            {func(o *observed) { copied(o); o.restore.DeletionTimestamp = &deleted }, cleanUp + " removeFinalizer"},
		"it has ended":                   {func(o *observed) { o.restore.Status.CompletedAt = ended }, "expire"},
		"it has ended, and is deleted":   {func(o *observed) { o.restore.Status.CompletedAt = ended; o.restore.DeletionTimestamp = &deleted }, "removeFinalizer"},
		"what it gave up for is no more": {func(o *observed) { copied(o); o.restore.Status.Failure = &v1alpha1.Failure{Reason: "X"} }, giveUp},
	} {
		if got := names((&Reconciler{}).plan(seenInto(test.change))); got != test.want {
			t.Errorf("%s: %s, and not %s", name, got, test.want)
		}
	}
}

func TestARunningClusterMustBeAbleToTakeTables(t *testing.T) {
	begin := func(o *observed) {
		o.restore.Status = v1alpha1.RestoreStatus{}
		o.into.login = &corev1.Secret{Data: map[string][]byte{"username": []byte("shop"), "password": []byte("x")}}
	}
	for name, test := range map[string]struct {
		change func(*observed)
		reason string
		says   string
	}{
		"all is well":     {func(*observed) {}, "", ""},
		"no such cluster": {func(o *observed) { o.cluster = nil }, v1alpha1.ReasonClusterNotFound, "There is no PostgresCluster shop"},
		"it hibernates":   {func(o *observed) { o.cluster.Spec.Hibernate = true }, v1alpha1.ReasonClusterNotReady, "hibernates"},
		"it isn't ready":  {func(o *observed) { o.cluster.Status.Conditions = nil }, v1alpha1.ReasonClusterNotReady, "Waiting until PostgresCluster shop is ready."},
		"no Secret":       {func(o *observed) { o.into.login = nil }, v1alpha1.ReasonSecretNotFound, "There is no Secret shop-app"},
		"no password":     {func(o *observed) { delete(o.into.login.Data, "password") }, v1alpha1.ReasonSecretNotFound, "has no password"},
		"another Secret": {func(o *observed) {
			o.into.login, o.intoCluster().Credentials = nil, &v1alpha1.RoleCredentials{SecretName: "reporting"}
		}, v1alpha1.ReasonSecretNotFound, "There is no Secret reporting"},
	} {
		outcome := preflightInto(t.Context(), seenInto(func(o *observed) { begin(o); test.change(o) }))
		if outcome.Reason != test.reason || !strings.Contains(outcome.Message, test.says) || (test.reason == "") != outcome.Finished() {
			t.Errorf("%s: %+v", name, outcome)
		}
	}
}

func TestTheJobsHaveNoVolumeAndOnlyTheSecretsThatTheyNeed(t *testing.T) {
	r := intoRestorer{&Reconciler{}}
	o := seenInto(copied)
	o.cluster.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}
	check, work := r.tablesJob(o, true), r.tablesJob(o, false)
	for _, job := range []workload.Job{check, work} {
		if job.DataClaim != "" || job.S3Secret != "" || job.KeysSecret != "" || job.Component != "table-restore" || job.Image != "postgres:17" || job.Resources.Limits.Cpu().String() != "1" {
			t.Errorf("Job: %+v", job)
		}
	}
	if check.Name != "shop-copy-12345678-check-restore" || check.Progress != nil || len(check.Secrets) != 1 || !check.Spec.(agentapi.TablesJob).CheckOnly {
		t.Errorf("check: %+v", check)
	}
	if work.Name != "r-restore" || work.Progress == nil || len(work.Secrets) != 2 || strings.Join(work.Secrets["shop-app"], " ") != "host port dbname ca.crt username password" {
		t.Errorf("work: %+v", work)
	}
	if spec := work.Spec.(agentapi.TablesJob); spec.CheckOnly || spec.Copy.MajorVersion != 15 || spec.MajorVersion != 17 || spec.Tables[0] != "public.orders" {
		t.Errorf("spec: %+v", spec)
	}
	o.intoCluster().Credentials = &v1alpha1.RoleCredentials{SecretName: "reporting"}
	if work = r.tablesJob(o, false); strings.Join(work.Secrets["shop-app"], " ") != "host port dbname ca.crt" || strings.Join(work.Secrets["reporting"], " ") != "username password" {
		t.Errorf("Secrets: %+v", work.Secrets)
	}
}

func TestAJobThatIsStoppedWhileItCopiesMayHaveCommitted(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*observed)
		says   bool
	}{
		"before it copied": {func(*observed) {}, false},
		"while it copied": {func(o *observed) {
			o.intoStatus().CopyingAt = &metav1.Time{Time: o.now}
			o.job = workload.State{Exists: true, LivePods: 1}
		}, true},
	} {
		o := seenInto(func(o *observed) { copied(o); test.change(o); o.restore.Spec.Cancel = true })
		if outcome := pinIntoFailure(t.Context(), o); strings.Contains(outcome.Message, "look in database shop whether public.orders exists") != test.says {
			t.Errorf("%s: %s", name, outcome.Message)
		}
	}
}

func TestTheEndSaysWhatWasRestoredAndWhatWasNot(t *testing.T) {
	o := seenInto(copied)
	o.restore.Status.IntoCluster.CommittedAt = &metav1.Time{Time: time.Unix(1050, 0)}
	o.restore.Status.IntoCluster.RestoredCount, o.restore.Status.IntoCluster.Rows, o.restore.Status.IntoCluster.Seconds = 2, 5000, 3
	o.restore.Status.IntoCluster.NotRestored = []string{"view public.open_orders"}
	report(o, flow.Next)
	const want = "2 tables, views and sequences with 5000 rows were restored into database shop of PostgresCluster shop, as of the end of the archive. The restore took 1m0s. " +
		"In the backup, these referred to what was restored, and they no longer exist: view public.open_orders. Create them again if you need them."
	if c := o.restore.Status.Conditions[0]; c.Reason != v1alpha1.ReasonCompleted || c.Message != want {
		t.Errorf("%s: %s", c.Reason, c.Message)
	}
}
