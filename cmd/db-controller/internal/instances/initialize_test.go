package instances

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/workload"
)

func TestTheInitJobIsToldWhatSpecSaysOfTheDataDirectory(t *testing.T) {
	for _, c := range []struct {
		bootstrap *v1alpha1.Bootstrap
		want      agentapi.Initdb
	}{
		{nil, agentapi.Initdb{}},
		{&v1alpha1.Bootstrap{Restore: &v1alpha1.BootstrapRestore{}}, agentapi.Initdb{}},
		{&v1alpha1.Bootstrap{Initdb: &v1alpha1.BootstrapInitdb{Database: "app"}}, agentapi.Initdb{}},
		{&v1alpha1.Bootstrap{Initdb: &v1alpha1.BootstrapInitdb{LocaleProvider: v1alpha1.LocaleICU, Locale: "de", ICURules: "&a < b", WALSegmentSize: "1Gi"}},
			agentapi.Initdb{LocaleProvider: "icu", Locale: "de", ICURules: "&a < b", WALSegmentMiB: 1024}},
		{&v1alpha1.Bootstrap{Initdb: &v1alpha1.BootstrapInitdb{Encoding: "LATIN1", LocaleProvider: v1alpha1.LocaleLibc, Locale: "C", WALSegmentSize: "4Mi"}},
			agentapi.Initdb{Encoding: "LATIN1", LocaleProvider: "libc", Locale: "C", WALSegmentMiB: 4}},
	} {
		if got := initdb(c.bootstrap); got != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}

func TestTheInitJobRunsTheSQLOfANewDatabaseOnly(t *testing.T) {
	files := postInitSQL(&v1alpha1.Bootstrap{Initdb: &v1alpha1.BootstrapInitdb{PostInitSQL: []v1alpha1.ConfigMapKey{{Name: "shop", Key: "schema.sql"}}}})
	if len(files) != 1 || files[0] != (agentapi.SQLFile{ConfigMap: "shop", Key: "schema.sql"}) {
		t.Errorf("%+v", files)
	}
	if files := postInitSQL(&v1alpha1.Bootstrap{Restore: &v1alpha1.BootstrapRestore{}}); files != nil {
		t.Errorf("of a restored one: %+v", files)
	}
}

func TestAnInitJobThatTriesAgainSaysWhy(t *testing.T) {
	o := observedtest.Running(func(o *observed.Cluster) {
		o.InitJob = workload.State{Exists: true, Outcome: &agentapi.Outcome{Error: &agentapi.JobError{Message: "the volume is not writable"}}}
	})
	if got := Initializing(o); got.Reason != v1alpha1.ReasonInitializing || got.Message != "The Job tries again. Its previous pod ended with: The volume is not writable." {
		t.Errorf("%s: %s", got.Reason, got.Message)
	}
	if o.InitJob.Outcome = nil; Initializing(o).Message != "The init Job creates the database." {
		t.Error(Initializing(o).Message)
	}
}

func TestAnInitJobWhoseVolumeHasNoStorageClassSaysWhatToDo(t *testing.T) {
	o := observedtest.Running(func(o *observed.Cluster) {
		o.Cluster.Status.SystemIdentifier = ""
		delete(o.Live, observed.Key("StatefulSet", "shop"))
		o.InitJob = workload.State{Exists: true}
		o.Claim(0).Status.Phase = corev1.ClaimPending
		o.Workers = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "shop-init-x"}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "pod has unbound immediate PersistentVolumeClaims",
		}}}}}
	})
	const want = "Pod shop-init-x can't be scheduled: The Kubernetes cluster has no default StorageClass, and spec.storage.storageClassName is not set. " +
		"Mark a class as default: the claim then uses it automatically. Or delete this PostgresCluster and create it again with spec.storage.storageClassName."
	if got := (&Steps{}).Initialize(t.Context(), o); got.Reason != v1alpha1.ReasonUnschedulable || got.Message != want {
		t.Errorf("%s: %s", got.Reason, got.Message)
	}
}
