//go:build integration

package cluster

import (
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/workload"
	"howdah.dev/howdah/test/testkit/subset"
)

// cloned makes a clone of shop.
func (l *lab) cloned(name string, version int32) *v1alpha1.PostgresCluster {
	l.Helper()
	return l.shop(func(c *v1alpha1.PostgresCluster) {
		c.Name, c.Spec.Version = name, version
		c.Spec.Bootstrap = &v1alpha1.Bootstrap{Clone: &v1alpha1.BootstrapClone{Cluster: v1alpha1.LocalReference{Name: "shop"}, Database: "orders", Owner: "clerk"}}
	})
}

func TestACloneOfAClusterIsRecordedBeforePostgreSQLStarts(t *testing.T) {
	subset.OneIn(t, 3)
	l := newLab(t)
	l.patience *= 3
	stop := l.mortals(1)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	l.kube.set(func(s *standIn) { s.initRuns = true })
	other := l.cloned("other", 18)
	message := l.awaitCondition(other, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSourceMismatch)
	if !strings.Contains(message, "Set spec.version to 17") {
		t.Errorf("message: %s", message)
	}

	clone := l.cloned("copy", 17)
	l.awaitCondition(clone, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonCopyingCluster)
	job, report := &batchv1.Job{}, &corev1.ConfigMap{}
	l.eventually("the init Job is created", func() bool { return l.there(job, "copy-init") && l.there(report, "copy-init") })
	task := agentapi.InitJob{}
	if err := json.Unmarshal(workload.InlineSpec(job), &task); err != nil || task.Clone == nil {
		t.Fatalf("%v: %+v", err, task)
	}
	l.get(clone)
	pinned := clone.Status.Clone
	if pinned == nil || pinned.ClusterUID != shop.UID || pinned.SystemIdentifier == "" || pinned.SystemIdentifier != task.Clone.SystemIdentifier ||
		task.Clone.Database != "orders" || task.Clone.Owner != "clerk" {
		t.Errorf("pinned %+v, and the Job is told %+v", pinned, task.Clone)
	}
	if got := strings.Join(task.Clone.Hosts, " "); got != "shop-ro."+l.ns+".svc shop-rw."+l.ns+".svc" {
		t.Errorf("asked for at %s", got)
	}
	mounted := ""
	for _, v := range job.Spec.Template.Spec.Volumes {
		if v.Secret != nil {
			for _, item := range v.Secret.Items {
				mounted += v.Secret.SecretName + "/" + item.Key + " "
			}
		}
	}
	if mounted != "shop-instance/server-ca.crt shop-instance/replication.crt shop-instance/replication.key " {
		t.Errorf("the Job has %s", mounted)
	}
	l.change(report, func() {
		report.Data = map[string]string{agentapi.ImportProgressKey: `{"phase":"Copying","doneBytes":1048576,"totalBytes":4194304,"message":"From a replica of PostgresCluster shop."}`}
	})
	l.eventually("status says how far it is", func() bool {
		l.get(clone)
		return clone.Status.Clone.Progress != nil && clone.Status.Clone.Progress.TotalBytes == 4194304
	})
	l.endInit()
	l.eventually("PostgreSQL is started", func() bool { return l.there(&appsv1.StatefulSet{}, "copy") })
	if l.get(clone); clone.Status.Clone.CompletedAt == nil || clone.Status.Clone.Progress != nil {
		t.Errorf("started before the end of the copy was recorded: %+v", clone.Status.Clone)
	}
	l.awaitRunning(clone)
	secret := &corev1.Secret{}
	if !l.there(secret, "copy-app") || string(secret.Data["username"]) != "clerk" || string(secret.Data["dbname"]) != "orders" {
		t.Errorf("the application's login: %s of %s", secret.Data["username"], secret.Data["dbname"])
	}
	stop()
}
