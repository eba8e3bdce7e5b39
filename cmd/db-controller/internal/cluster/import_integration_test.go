//go:build integration

package cluster

import (
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/workload"
)

func imported(c *v1alpha1.PostgresCluster) {
	c.Spec.Bootstrap = &v1alpha1.Bootstrap{Import: &v1alpha1.BootstrapImport{
		Source:    v1alpha1.ImportSource{Host: "db.example.com", User: "reader", PasswordSecret: &v1alpha1.ImportSecretKey{Name: "legacy"}, CASecret: &v1alpha1.ImportSecretKey{Name: "legacy"}},
		Databases: []v1alpha1.ImportDatabase{{Name: "shop"}}, Database: "shop", Owner: "clerk",
	}}
}

func TestAnImportShowsHowFarItIsAndIsRecordedBeforePostgreSQLStarts(t *testing.T) {
	l := newLab(t)
	l.patience *= 3
	l.kube.set(func(s *standIn) { s.initRuns = true })
	stop := l.mortals(1)
	shop := l.shop(imported)
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonImporting)
	job, report, role := &batchv1.Job{}, &corev1.ConfigMap{}, &rbacv1.Role{}
	l.eventually("the init Job is created", func() bool { return l.there(job, "shop-init") })
	if !l.there(report, "shop-init") || !l.there(role, "shop-init") || len(report.Data) != 0 {
		t.Fatalf("what it reports to: %+v, %+v", report, role)
	}
	task := agentapi.InitJob{}
	if err := json.Unmarshal(workload.InlineSpec(job), &task); err != nil || task.Import == nil {
		t.Fatalf("%v: %+v", err, task)
	}
	if s := task.Import.Source; s.SSLMode != "verify-full" || s.Port != 5432 || s.Password.Key != "password" || s.CA.Key != "ca.crt" || s.Database != "postgres" {
		t.Errorf("the Job is told %+v", s)
	}
	l.change(report, func() {
		report.Data = map[string]string{
			agentapi.ImportProgressKey:  `{"phase":"Copying","doneBytes":1048576,"totalBytes":4194304,"bytesPerSecond":1048576,"secondsLeft":3,"message":"Database shop: table 2 of 9."}`,
			agentapi.ImportPreflightKey: `{"sourceVersion":"15.18","databases":["shop"],"warnings":["Subscriptions are not imported."],"rolesWithoutPassword":["old"]}`,
		}
	})
	l.eventually("status says how far it is", func() bool {
		l.get(shop)
		return shop.Status.Import != nil && shop.Status.Import.Progress != nil && shop.Status.Import.Progress.TotalBytes == 4194304
	})
	message := l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonImporting)
	if !strings.Contains(message, "1.0 MiB of 4.0 MiB") || !strings.Contains(message, "about 3s left") || !strings.Contains(message, "table 2 of 9") {
		t.Errorf("message: %s", message)
	}
	if l.there(&appsv1.StatefulSet{}, "shop") {
		t.Error("started before the import has ended")
	}
	l.endInit()
	l.eventually("PostgreSQL is started", func() bool { return l.there(&appsv1.StatefulSet{}, "shop") })
	if l.get(shop); shop.Status.Import.CompletedAt == nil {
		t.Error("started before the end of the import was recorded")
	}
	l.awaitRunning(shop)
	s := shop.Status.Import
	if s.Progress != nil || s.SourceVersion != "15.18" || len(s.Warnings) != 1 || len(s.RolesWithoutPassword) != 1 || len(s.Databases) != 1 {
		t.Errorf("status: %+v", s)
	}
	secret := &corev1.Secret{}
	if !l.there(secret, "shop-app") || string(secret.Data["username"]) != "clerk" || string(secret.Data["dbname"]) != "shop" {
		t.Errorf("the application's login: %s of %s", secret.Data["username"], secret.Data["dbname"])
	}
	l.eventually("what the Job has left is cleared away", func() bool {
		return !l.there(&batchv1.Job{}, "shop-init") && !l.there(&corev1.ConfigMap{}, "shop-init")
	})
	stop()
}

func TestACutoverReachesTheJobOfAnOnlineImportAndDeletionReleasesTheSource(t *testing.T) {
	l := newLab(t)
	l.patience *= 3
	l.kube.set(func(s *standIn) { s.initRuns = true })
	stop := l.mortals(1)
	shop := l.shop(func(c *v1alpha1.PostgresCluster) {
		imported(c)
		c.Spec.Bootstrap.Import.Online = &v1alpha1.OnlineImport{}
	})
	job, report := &batchv1.Job{}, &corev1.ConfigMap{}
	l.eventually("the init Job is created", func() bool { return l.there(job, "shop-init") && l.there(report, "shop-init") })
	task := agentapi.InitJob{}
	if err := json.Unmarshal(workload.InlineSpec(job), &task); err != nil || task.Import.Online == nil || task.Import.Online.Cluster != string(shop.UID) || task.Import.Online.Release {
		t.Fatalf("%v: %+v", err, task.Import.Online)
	}
	wanted := func(cutover bool) func() bool {
		return func() bool {
			now := agentapi.ImportWanted{}
			return l.there(report, "shop-init") && json.Unmarshal([]byte(report.Data[agentapi.ImportWantedKey]), &now) == nil &&
				now == agentapi.ImportWanted{Cutover: cutover, MaxRetainedBytes: 64 << 30, Generation: shop.Generation}
		}
	}
	l.eventually("the Job learns how much WAL the source may retain", wanted(false))
	l.change(report, func() {
		report.Data[agentapi.ImportPreflightKey] = `{"sourceVersion":"15.18","databases":["shop"]}`
		report.Data[agentapi.ImportOnlineKey] = `{"state":"Following","lagBytes":1048576,"retainedBytes":4194304}`
	})
	message := l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonFollowingSource)
	if !strings.Contains(message, "lag by 1.0 MiB of WAL, and the source retains 4.0 MiB") || !strings.Contains(message, "online.cutover: true") {
		t.Errorf("message: %s", message)
	}
	l.change(shop, func() { shop.Spec.Bootstrap.Import.Online.Cutover = true })
	l.eventually("the Job learns of the cutover", wanted(true))
	l.change(report, func() {
		report.Data[agentapi.ImportOnlineKey] = `{"state":"CuttingOver","problems":["Database shop: these users have sessions on the source: clerk (1)."]}`
	})
	if message := l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonCuttingOver); !strings.Contains(message, "clerk (1)") {
		t.Errorf("message: %s", message)
	}
	l.change(shop, func() { shop.Spec.Bootstrap.Import.Online.Cutover = false })
	l.eventually("the Job learns that it was taken back", wanted(false))
	if l.get(shop); shop.Status.Import.Online.State != v1alpha1.OnlineImportCuttingOver {
		t.Errorf("before the Job has said so, status says %s", shop.Status.Import.Online.State)
	}
	if again := (&batchv1.Job{}); !l.there(again, "shop-init") || again.UID != job.UID {
		t.Error("the import was begun again")
	}

	l.beginDeletion(shop)
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonReleasingSource)
	release := &batchv1.Job{}
	l.eventually("the source is released", func() bool { return l.there(release, "shop-import-release") })
	if err := json.Unmarshal(workload.InlineSpec(release), &task); err != nil || !task.Import.Online.Release || l.there(&batchv1.Job{}, "shop-init") {
		t.Errorf("%v: %+v", err, task.Import.Online)
	}
	l.endInit()
	l.awaitGone(shop)
	stop()
}

func TestAnImportThatNeverReachedItsSourceIsDeletedWithoutIt(t *testing.T) {
	l := newLab(t)
	l.kube.set(func(s *standIn) { s.initRuns = true })
	shop := l.shop(func(c *v1alpha1.PostgresCluster) {
		imported(c)
		c.Spec.Bootstrap.Import.Online = &v1alpha1.OnlineImport{}
	})
	l.eventually("the init Job is created", func() bool { return l.there(&batchv1.Job{}, "shop-init") })
	l.beginDeletion(shop)
	l.awaitGone(shop)
}

func TestASourceThatNoLongerExistsIsAbandonedWhenAPersonSaysSo(t *testing.T) {
	l := newLab(t)
	l.kube.set(func(s *standIn) { s.initRuns = true })
	shop := l.shop(func(c *v1alpha1.PostgresCluster) {
		imported(c)
		c.Spec.Bootstrap.Import.Online = &v1alpha1.OnlineImport{}
	})
	report := &corev1.ConfigMap{}
	l.eventually("the init Job is created", func() bool { return l.there(report, "shop-init") && report.Data[agentapi.ImportWantedKey] != "" })
	l.change(report, func() { report.Data[agentapi.ImportPreflightKey] = `{"sourceVersion":"15.18","databases":["shop"]}` })
	l.eventually("status has it", func() bool { l.get(shop); return shop.Status.Import != nil && shop.Status.Import.SourceVersion != "" })
	l.kube.set(func(s *standIn) {
		s.initRuns, s.initError = false, &agentapi.JobError{Reason: "SourceUnreachable", Message: "The source is away"}
	})
	message := l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInitFailed)
	if !strings.Contains(message, "may retain WAL on the source without a limit") {
		t.Errorf("message: %s", message)
	}
	l.beginDeletion(shop)
	message = l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonReleasingSource)
	if !strings.Contains(message, "abandonSource: true") {
		t.Errorf("message: %s", message)
	}
	l.change(shop, func() { shop.Spec.Bootstrap.Import.Online.AbandonSource = true })
	l.awaitGone(shop)
}

func TestTheDeletionOfANamespaceWaitsUntilTheSourceIsAbandoned(t *testing.T) {
	l := newLab(t)
	l.kube.set(func(s *standIn) { s.initRuns = true })
	shop := l.shop(func(c *v1alpha1.PostgresCluster) {
		imported(c)
		c.Spec.Bootstrap.Import.Online = &v1alpha1.OnlineImport{}
	})
	report := &corev1.ConfigMap{}
	l.eventually("the init Job is created", func() bool { return l.there(report, "shop-init") && report.Data[agentapi.ImportWantedKey] != "" })
	l.change(report, func() { report.Data[agentapi.ImportPreflightKey] = `{"sourceVersion":"15.18","databases":["shop"]}` })
	l.eventually("status has it", func() bool { l.get(shop); return shop.Status.Import != nil && shop.Status.Import.SourceVersion != "" })
	l.deleteNamespace()
	message := ""
	l.eventually("it says that a person must do it", func() bool {
		message = l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonReleasingSource)
		return strings.Contains(message, "whose names begin with howdah_import_, and set spec.bootstrap.import.online.abandonSource: true")
	})
	l.change(shop, func() { shop.Spec.Bootstrap.Import.Online.AbandonSource = true })
	l.awaitGone(shop)
}
