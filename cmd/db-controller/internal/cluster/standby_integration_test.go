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

// standbyShop is a standby of what is in the repository minio.
func (l *lab) standbyShop(change func(*v1alpha1.PostgresCluster)) *v1alpha1.PostgresCluster {
	l.Helper()
	return l.shop(func(c *v1alpha1.PostgresCluster) {
		c.Spec.Standby = &v1alpha1.Standby{Source: v1alpha1.StandbySource{Repository: v1alpha1.StandbyRepository{Name: "minio"}}, Database: "orders", Owner: "clerk"}
		if change != nil {
			change(c)
		}
	})
}

func (l *lab) source() {
	l.Helper()
	readOnly := repository(l.ns)
	readOnly.Spec.ReadOnly = true
	l.create(readOnly)
	l.create(credentials(l.ns))
}

const followsNow = `{"stage":"Following","lineage":"7-g0","backup":"first","replayed":"0/5000000","archived":"0/6000000","archivedAt":"2026-03-01T12:01:00Z","lagBytes":1048576}`

func TestAStandbyFollowsUntilItIsPromotedAndServesOnlyThen(t *testing.T) {
	l := newLab(t)
	l.patience *= 3
	l.kube.set(func(s *standIn) { s.initRuns = true })
	stop := l.mortals(1)
	l.source()
	shop := l.standbyShop(nil)
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRestoringBackup)
	job, report, role := &batchv1.Job{}, &corev1.ConfigMap{}, &rbacv1.Role{}
	wanted := func() (w agentapi.StandbyWanted) {
		if l.there(report, "shop-init") {
			_ = json.Unmarshal([]byte(report.Data[agentapi.StandbyWantedKey]), &w)
		}
		return w
	}
	l.eventually("the Job learns whose standby it is", func() bool {
		return l.there(job, "shop-init") && l.there(role, "shop-init") && wanted() == agentapi.StandbyWanted{Cluster: string(shop.UID)}
	})
	task := agentapi.InitJob{}
	if err := json.Unmarshal(workload.InlineSpec(job), &task); err != nil || task.Standby == nil || !task.Standby.Repository.ReadOnly || task.Standby.Cluster != string(shop.UID) {
		t.Fatalf("%v: %+v", err, task.Standby)
	}
	l.change(report, func() { report.Data[agentapi.StandbyKey] = followsNow })
	message := l.awaitCondition(shop, v1alpha1.ConditionFollowsSource, metav1.ConditionTrue, v1alpha1.ReasonFollowingArchive)
	if !strings.Contains(message, "0/5000000") {
		t.Errorf("message: %s", message)
	}
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonFollowingArchive)
	if l.get(shop); shop.Status.Standby.LagBytes != 1<<20 || shop.Status.Standby.Lineage != "7-g0" || shop.Status.Standby.Promotion != nil {
		t.Errorf("status: %+v", shop.Status.Standby)
	}

	l.change(shop, func() { shop.Spec.Standby.Promote = v1alpha1.PromoteAtEndOfArchive })
	l.eventually("the Job learns of the promotion", func() bool { return wanted().Promote == agentapi.PromoteAtEndOfArchive })
	if l.get(shop); shop.Status.Standby.Promotion == nil || shop.Status.Standby.Promotion.Generation != shop.Generation {
		t.Errorf("the Job was told before it was recorded: %+v", shop.Status.Standby)
	}
	l.change(report, func() {
		report.Data[agentapi.StandbyKey] = `{"stage":"Promoting","lineage":"7-g0","problems":[{"reason":"NotFollowing","message":"The archive is away."}]}`
	})
	l.eventually("Ready says what it waits for", func() bool {
		return strings.Contains(l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPromoting), "The archive is away.")
	})
	if err := l.Delete(t.Context(), report); err != nil { // a person cleans up
		t.Fatal(err)
	}
	l.eventually("the Job can hear of it all the same", func() bool { return wanted().Promote == agentapi.PromoteAtEndOfArchive })
	if again := (&batchv1.Job{}); !l.there(again, "shop-init") || again.UID != job.UID {
		t.Error("the Job was created again")
	}
	if l.there(&appsv1.StatefulSet{}, "shop") {
		t.Error("started before the promotion has ended")
	}
	l.endInit()
	l.eventually("PostgreSQL is started", func() bool { return l.there(&appsv1.StatefulSet{}, "shop") })
	if l.get(shop); shop.Status.Standby.PromotedAt == nil {
		t.Error("started before the promotion was recorded")
	}
	l.awaitRunning(shop)
	l.eventually("the condition is about nothing any more", func() bool {
		l.get(shop)
		for _, c := range shop.Status.Conditions {
			if c.Type == v1alpha1.ConditionFollowsSource {
				return false
			}
		}
		return true
	})
	secret := &corev1.Secret{}
	if !l.there(secret, "shop-app") || string(secret.Data["username"]) != "clerk" || string(secret.Data["dbname"]) != "orders" {
		t.Errorf("the application's login: %s of %s", secret.Data["username"], secret.Data["dbname"])
	}
	l.change(shop, func() { shop.Spec.Standby = nil }) // it may go now
	l.settle()
	l.awaitRunning(shop)
	stop()
}

func TestAStandbyWaitsForTheRepositoryOfItsSource(t *testing.T) {
	l := newLab(t)
	l.kube.set(func(s *standIn) { s.initRuns = true })
	shop := l.standbyShop(nil)
	message := l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRepositoryNotFound)
	if !strings.Contains(message, "spec.standby.source.repository") {
		t.Errorf("message: %s", message)
	}
	l.source()
	l.eventually("the Job is created", func() bool { return l.there(&batchv1.Job{}, "shop-init") })
}

func TestTheJobOfAStandbyIsCreatedAgainWhereItsRepositoryIsAnotherOne(t *testing.T) {
	l := newLab(t)
	l.kube.set(func(s *standIn) { s.initRuns = true })
	l.source()
	l.standbyShop(nil)
	job, repo := &batchv1.Job{}, repository(l.ns)
	l.eventually("the Job is created", func() bool { return l.there(job, "shop-init") })
	l.change(repo, func() { repo.Spec.S3.Endpoint = "https://elsewhere.example.com:9000" })
	l.eventually("another one is", func() bool {
		again := &batchv1.Job{}
		return l.there(again, "shop-init") && again.UID != job.UID && strings.Contains(string(workload.InlineSpec(again)), "elsewhere")
	})
}

func TestAStandbyIsDeletedWithoutABackup(t *testing.T) {
	l := newLab(t)
	l.kube.set(func(s *standIn) { s.initRuns = true })
	l.source()
	shop := l.standbyShop(nil)
	l.eventually("the Job is created", func() bool { return l.there(&batchv1.Job{}, "shop-init") })
	l.beginDeletion(shop)
	l.awaitGone(shop)
}

func TestAPromotedStandbyIsBackedUpOnceAndItsDeletionWantsABackupOfItsOwn(t *testing.T) {
	l := newLab(t)
	l.patience *= 3
	l.kube.set(func(s *standIn) { s.initRuns = true })
	stop := l.mortals(1)
	l.create(repository(l.ns))
	l.create(credentials(l.ns))
	shop := l.standbyShop(archived)
	l.eventually("the Job is created", func() bool { return l.there(&batchv1.Job{}, "shop-init") })
	l.endInit()
	l.awaitRunning(shop)
	l.awaitCondition(shop, v1alpha1.ConditionFirstBackupTaken, metav1.ConditionFalse, v1alpha1.ReasonAwaitingFirstBackup)
	l.answerBackup(shop, metav1.ConditionTrue, "done")
	l.awaitCondition(shop, v1alpha1.ConditionFirstBackupTaken, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	first := shop.Status.Standby.FirstBackup
	if first == nil || !strings.HasPrefix(first.Name, "shop-first-") {
		t.Fatalf("%+v", shop.Status.Standby)
	}
	if err := l.Delete(t.Context(), &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: first.Name}}); err != nil { // as retention would
		t.Fatal(err)
	}
	l.settle()
	if l.get(shop); shop.Status.BackupRequest != nil || shop.Status.Standby.FirstBackup == nil {
		t.Errorf("another one is requested: %+v", shop.Status.BackupRequest)
	}
	l.beginDeletion(shop)
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAwaitingFinalBackup)
	l.answerBackup(shop, metav1.ConditionTrue, "done")
	l.awaitGone(shop)
	stop()
}

func TestOnlyTheLineageOfAStandbysSourceCanBeChangedAndOnlyBeforeThePromotion(t *testing.T) {
	l := newLab(t)
	l.kube.set(func(s *standIn) { s.initRuns = true })
	l.source()
	shop := l.standbyShop(nil)
	job := &batchv1.Job{}
	l.eventually("the Job is created", func() bool { return l.there(job, "shop-init") })
	try := func(change func(*v1alpha1.Standby)) error {
		l.get(shop)
		tried := shop.DeepCopy()
		change(tried.Spec.Standby)
		return l.Update(t.Context(), tried)
	}
	refused := func(what, says string, change func(*v1alpha1.Standby)) {
		t.Helper()
		l.eventually("the API server has answered about "+what, func() bool {
			err := try(change)
			if err == nil {
				t.Fatalf("%s is accepted", what)
			}
			return strings.Contains(err.Error(), says)
		})
	}
	refused("another repository", "source.repository.name", func(s *v1alpha1.Standby) { s.Source.Repository.Name = "other" })
	refused("another policy", "Unsupported value", func(s *v1alpha1.Standby) { s.Reinit = "Always" })
	l.change(shop, func() { shop.Spec.Standby.Reinit = v1alpha1.StandbyReinitFromNewerBackup })
	l.eventually("the Job hears that it may be replaced", func() bool {
		report := &corev1.ConfigMap{}
		return l.there(report, "shop-init") && strings.Contains(report.Data[agentapi.StandbyWantedKey], `"reinit":"FromNewerBackup"`)
	})
	l.change(shop, func() { shop.Spec.Standby.Source.Repository.Lineage = "7-g1" })
	l.eventually("a Job follows that lineage", func() bool {
		again := &batchv1.Job{}
		return l.there(again, "shop-init") && again.UID != job.UID && strings.Contains(string(workload.InlineSpec(again)), `"lineage":"7-g1"`)
	})
	refused("no lineage", "can't be removed", func(s *v1alpha1.Standby) { s.Source.Repository.Lineage = "" })
	l.change(shop, func() { shop.Spec.Standby.Promote = v1alpha1.PromoteAtEndOfArchive })
	refused("a lineage after the promotion was requested", "once a promotion was requested", func(s *v1alpha1.Standby) { s.Source.Repository.Lineage = "7-g2" })
}

func TestAStandbyThatFollowsGetsTheAgentOfANewSuite(t *testing.T) {
	l := newLab(t)
	l.kube.set(func(s *standIn) { s.initRuns = true })
	l.source()
	l.standbyShop(nil)
	job, report, again := &batchv1.Job{}, &corev1.ConfigMap{}, &batchv1.Job{}
	l.eventually("the Job is created", func() bool { return l.there(job, "shop-init") && l.there(report, "shop-init") })
	upgrade := func(image string) {
		l.stop()
		l.agent.Image = image
		l.startController()
	}
	upgrade("agent:2")
	l.settle()
	if l.there(again, "shop-init"); again.UID != job.UID {
		t.Fatal("the restore of a backup was interrupted")
	}
	l.change(report, func() {
		if report.Data == nil {
			report.Data = map[string]string{}
		}
		report.Data[agentapi.StandbyKey] = followsNow
	})
	l.eventually("a Job has the new agent", func() bool {
		return l.there(again, "shop-init") && again.UID != job.UID && workload.AgentImage(&corev1.Pod{Spec: again.Spec.Template.Spec}) == "agent:2"
	})
	l.settle()
	if last := (&batchv1.Job{}); !l.there(last, "shop-init") || last.UID != again.UID {
		t.Error("it is replaced again and again")
	}
}
