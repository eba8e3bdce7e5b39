//go:build integration

package cluster

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/test/testkit/authority"
)

// answerBackup makes the Backup that a cluster wants, and ends it, as the backup-controller would.
func (l *lab) answerBackup(shop *v1alpha1.PostgresCluster, status metav1.ConditionStatus, message string) {
	l.Helper()
	backup := &v1alpha1.Backup{}
	l.eventually("a backup is wanted", func() bool {
		l.get(shop)
		ask := protocol.BackupRequestOf(shop)
		if ask == nil {
			return false
		}
		backup = protocol.NewBackup(ask)
		return !l.there(&v1alpha1.Backup{}, backup.Name)
	})
	l.create(backup)
	l.say(backup, func() {
		backup.Status.ObservedGeneration = backup.Generation
		backup.Status.CompletedAt = ptr.To(metav1.Now())
		meta.SetStatusCondition(&backup.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionSucceeded, Status: status, Reason: "X", Message: message,
		})
	})
}

func (l *lab) beginDeletion(shop *v1alpha1.PostgresCluster) {
	l.Helper()
	if err := l.Delete(context.Background(), shop); err != nil {
		l.Fatal(err)
	}
}

func (l *lab) awaitGone(shop *v1alpha1.PostgresCluster) {
	l.Helper()
	l.eventually("the cluster is gone", func() bool { return !l.there(&v1alpha1.PostgresCluster{}, shop.Name) })
}

func TestADeletionWaitsForTheFinalBackupAndThenTakesTheVolumes(t *testing.T) {
	l := newLab(t)
	shop := l.archivedShop()
	domain := "." + l.ns + ".svc"
	company := issued(t, authority.New(t), "shop-rw"+domain, "shop-ro"+domain, "shop-r"+domain, "*.shop-pods"+domain)
	l.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "company"}, Type: corev1.SecretTypeTLS, Data: company})
	l.change(shop, func() {
		shop.Spec.TLS.ServerSecret = &v1alpha1.ServerSecret{Name: "company"}
		shop.Spec.PostgreSQL.LDAPCA = &v1alpha1.CABundle{Secret: &v1alpha1.BundleKey{Name: "company"}}
	})
	own := func() bool {
		all, copied := agentapi.Passwords{}, &corev1.Secret{}
		return l.there(copied, "shop-instance") && json.Unmarshal(copied.Data["roles.json"], &all) == nil &&
			len(all[agentapi.ServerTrustKey]) > 0 && len(all[agentapi.LDAPTrustKey]) > 0
	}
	l.eventually("pods trust the CAs of a person's own", own)
	l.beginDeletion(shop)
	message := l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAwaitingFinalBackup)
	if !strings.Contains(message, "finalBackup: false") || !l.there(&corev1.Pod{}, "shop-0") {
		t.Errorf("message %q, or the database was stopped", message)
	}
	if !own() {
		t.Error("a cluster that still serves has lost the CAs of a person's own")
	}
	l.answerBackup(shop, metav1.ConditionTrue, "done")
	l.awaitGone(shop)
	claim := &corev1.PersistentVolumeClaim{}
	if l.there(claim, "data-shop-0") && claim.DeletionTimestamp.IsZero() {
		t.Error("the volume is still there")
	}
	if l.there(&corev1.Pod{}, "shop-0") {
		t.Error("the pod is still there")
	}
}

// What was written after the final backup is in WAL alone. Where that is not archived when the last primary ends, or nobody knows, the volumes have
// the only copy.
func TestVolumesStayWhereTheLastWALMayNotBeArchived(t *testing.T) {
	for name, end := range map[string]func(*standIn){
		"the archive fails while the primary ends": func(s *standIn) { s.unarchived = []string{"000000010000000000000007"} },
		"the primary is killed":                    func(s *standIn) { s.unsaid = true },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			shop := l.archivedShop()
			l.change(shop, func() { shop.Spec.DeletionPolicy.Volumes = v1alpha1.VolumesDelete })
			l.kube.set(end)
			l.beginDeletion(shop)
			l.answerBackup(shop, metav1.ConditionTrue, "done")
			l.awaitGone(shop)
			claim := &corev1.PersistentVolumeClaim{}
			if !l.there(claim, "data-shop-0") || !claim.DeletionTimestamp.IsZero() || claim.Labels[component.LabelRetainedFrom] != "shop" ||
				claim.Labels[component.LabelRetainedReason] != volume.NotArchived {
				t.Errorf("the volume with the last commits goes as well, or doesn't say why not: %+v", claim.ObjectMeta)
			}
			l.eventually("an event at the claim says why it stays", func() bool {
				all := &eventsv1.EventList{}
				if err := l.List(context.Background(), all, client.InNamespace(l.ns)); err != nil {
					t.Fatal(err)
				}
				return slices.ContainsFunc(all.Items, func(e eventsv1.Event) bool {
					return e.Reason == v1alpha1.ReasonVolumeRetained && e.Regarding.Kind == "PersistentVolumeClaim" && strings.HasPrefix(e.Note, "PersistentVolumeClaim data-shop-0 is kept. ")
				})
			})
		})
	}
}

// The final backup is of what runs. What a Restore or an Upgrade has replaced is on volumes alone, and a person may want it back.
func TestAVolumeWithPreviousDataThatNobodyHasDecidedOnOutlivesItsCluster(t *testing.T) {
	l := newLab(t)
	shop := l.archivedShop()
	l.change(shop, func() { shop.Spec.DeletionPolicy.Volumes = v1alpha1.VolumesDelete })
	upgrade := &v1alpha1.Upgrade{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "up"},
		Spec:       v1alpha1.UpgradeSpec{Cluster: v1alpha1.LocalReference{Name: shop.Name}, Version: 18},
	}
	l.create(upgrade)
	l.say(upgrade, func() {
		upgrade.Status.Plan = &v1alpha1.UpgradePlan{ClusterUID: shop.UID, FromGeneration: "g0", ToGeneration: shop.Status.DataGeneration}
		upgrade.Status.Previous = &v1alpha1.PreviousData{DataGeneration: "g0", Instance: "shop-0", SystemIdentifier: "7", MajorVersion: 17, Image: "postgres:17"}
		upgrade.Status.UpAt = ptr.To(metav1.Now())
	})
	l.beginDeletion(shop)
	l.answerBackup(shop, metav1.ConditionTrue, "done")
	l.awaitGone(shop)
	claim := &corev1.PersistentVolumeClaim{}
	if !l.there(claim, "data-shop-0") || !claim.DeletionTimestamp.IsZero() || claim.Labels[component.LabelRetainedReason] != volume.PreviousData {
		t.Errorf("the volume with the previous data goes as well: %+v", claim.ObjectMeta)
	}
}

func TestAFailedFinalBackupIsAskedForAgainAfterAPause(t *testing.T) {
	l := newLab(t)
	shop := l.archivedShop()
	l.beginDeletion(shop)
	l.answerBackup(shop, metav1.ConditionFalse, "the store is away")
	var message string
	l.eventually("the failure is shown", func() bool {
		message = l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAwaitingFinalBackup)
		return strings.Contains(message, "the store is away")
	})
	first := shop.Status.BackupRequest.Token
	l.clock.forward(2 * time.Minute)
	l.change(shop, func() { shop.Annotations = map[string]string{"example.com/wake": "up"} })
	l.eventually("it is asked again", func() bool { l.get(shop); return shop.Status.BackupRequest.Token != first })
	if shop.Status.BackupRequest.Token != protocol.Token(shop.UID, 1) {
		t.Errorf("token %s", shop.Status.BackupRequest.Token)
	}
	l.change(shop, func() {
		shop.Spec.DeletionPolicy = v1alpha1.DeletionPolicy{FinalBackup: ptr.To(false), Volumes: v1alpha1.VolumesDelete}
	})
	l.awaitGone(shop)
}

func TestRetainedVolumesSayWhoseTheyWere(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	l.beginDeletion(shop)
	l.awaitGone(shop)
	claim := &corev1.PersistentVolumeClaim{}
	if !l.there(claim, "data-shop-0") || !claim.DeletionTimestamp.IsZero() || len(claim.OwnerReferences) > 0 {
		t.Fatalf("the volume goes as well: %v", claim.OwnerReferences)
	}
	if claim.Labels[component.LabelRetainedFrom] != "shop" || claim.Labels[v1alpha1.LabelCluster] != "" {
		t.Errorf("labels: %v", claim.Labels)
	}
}

func TestAClusterThatNeverRanNeedsNoFinalBackup(t *testing.T) {
	l := newLab(t)
	shop := l.shop(archived) // its repository is missing, so it never begins
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRepositoryNotFound)
	l.beginDeletion(shop)
	l.awaitGone(shop)
}

func TestADeletionWaitsForWhoHoldsTheVolumesAndRefusesOthers(t *testing.T) {
	l := newLab(t)
	shop := l.shop(func(c *v1alpha1.PostgresCluster) { c.Spec.DeletionPolicy.Volumes = v1alpha1.VolumesDelete })
	l.awaitRunning(shop)
	holder := l.upgrade("holder", shop)
	l.awaitAnswer(shop, holder, v1alpha1.VolumeLockGranted)
	l.beginDeletion(shop)
	late := l.upgrade("late", shop)
	if answer := l.awaitAnswer(shop, late, v1alpha1.VolumeLockRefused); answer.Message != "The PostgresCluster is being deleted." {
		t.Errorf("message: %s", answer.Message)
	}
	l.settle()
	if !l.there(shop, "shop") {
		t.Fatal("it is gone under the holder's hands")
	}
	l.say(holder, func() { holder.Status.VolumeLockRequest = nil })
	l.awaitGone(shop)
}

func TestAnInterruptedDeletionIsFinishedByTheNextController(t *testing.T) {
	l := newLab(t)
	shop := l.archivedShop()
	l.beginDeletion(shop)
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAwaitingFinalBackup)
	l.stop()
	l.answerBackup(shop, metav1.ConditionTrue, "done")
	l.startController()
	l.awaitGone(shop)
}

func TestADeletionInTheForegroundKeepsItsOrder(t *testing.T) {
	l := newLab(t)
	shop := l.archivedShop()
	if err := l.Delete(context.Background(), shop, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAwaitingFinalBackup)
	if slices.Contains(shop.Finalizers, metav1.FinalizerDeleteDependents) {
		t.Error("Kubernetes may still delete what the last backup needs")
	}
	l.answerBackup(shop, metav1.ConditionTrue, "done")
	l.awaitGone(shop)
}
