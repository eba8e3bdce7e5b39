//go:build integration

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/component/orphan"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/workload"
	"howdah.dev/howdah/test/testkit/apiserver"
	"howdah.dev/howdah/test/testkit/subset"
)

// retained deletes a cluster of three, whose last primary is shop-1, and leaves its volumes.
func (l *lab) retained() (*v1alpha1.PostgresCluster, map[string]types.UID) {
	l.Helper()
	return l.retainedAs(three)
}

func (l *lab) retainedAs(change func(*v1alpha1.PostgresCluster)) (*v1alpha1.PostgresCluster, map[string]types.UID) {
	l.Helper()
	shop := l.shop(change)
	l.awaitReplicated(shop)
	l.lead("shop-1")
	l.eventually("shop-1 leads", func() bool { l.get(shop); return shop.Status.Primary == "shop-1" })
	claims := l.claims()
	l.beginDeletion(shop)
	l.awaitGone(shop)
	for _, part := range orphan.Parts(shop, nil) { // as Kubernetes does
		part.Namespace = l.ns
		if err := l.Delete(context.Background(), part); client.IgnoreNotFound(err) != nil {
			l.Fatal(err)
		}
	}
	l.kube.set(func(s *standIn) {
		s.found = map[string]agentapi.VolumeInspection{}
		for ordinal := range 3 {
			s.found[fmt.Sprintf("shop-volume-%d", ordinal)] = agentapi.VolumeInspection{
				DataGeneration: shop.Status.DataGeneration, SystemIdentifier: shop.Status.SystemIdentifier, MajorVersion: 17,
				State: "shut down", Primary: ordinal == 1, Timeline: 2, Position: agentapi.VolumePosition{Timeline: 2, LSN: 7},
			}
		}
	})
	return shop, claims
}

// claims are the UIDs by the names of the claims.
func (l *lab) claims() map[string]types.UID {
	l.Helper()
	claims, uids := &corev1.PersistentVolumeClaimList{}, map[string]types.UID{}
	if err := l.List(context.Background(), claims, client.InNamespace(l.ns)); err != nil {
		l.Fatal(err)
	}
	for i := range claims.Items {
		uids[claims.Items[i].Name] = claims.Items[i].UID
	}
	return uids
}

func withVolumes(c *v1alpha1.PostgresCluster) {
	three(c)
	c.Spec.Bootstrap = &v1alpha1.Bootstrap{Volumes: &v1alpha1.BootstrapVolumes{From: v1alpha1.VolumesOfDeletedCluster}}
}

// TestAClusterBeginsWithTheVolumesOfADeletedOne with each write the last of its process, with the rights of the account alone.
func TestAClusterBeginsWithTheVolumesOfADeletedOne(t *testing.T) {
	subset.OneIn(t, 2)
	l := newLab(t)
	l.agent, l.account = workload.Agent{Image: "registry.local/howdah/agent:1"}, apiserver.As(t, "db-controller")
	l.stop()
	l.startController()
	first, claims := l.retained()
	record := &volume.Record{}
	claim := &corev1.PersistentVolumeClaim{}
	if !l.there(claim, "data-shop-2") || json.Unmarshal([]byte(claim.Annotations[component.AnnotationRetainedData]), record) != nil || record.Primary != "shop-1" ||
		record.DataGeneration != first.Status.DataGeneration || record.SystemIdentifier != first.Status.SystemIdentifier {
		t.Fatalf("what a volume says: %v", claim.Annotations)
	}
	l.patience *= 4
	stop := l.mortals(1)
	second := l.shop(withVolumes)
	l.awaitReplicated(second)
	stop()
	status := second.Status
	if status.Identity != first.UID || status.DataGeneration != first.Status.DataGeneration || status.SystemIdentifier != first.Status.SystemIdentifier ||
		status.DataInstance != "shop-1" {
		t.Errorf("identity %s, data generation %s, system %s, begun by %s", status.Identity, status.DataGeneration, status.SystemIdentifier, status.DataInstance)
	}
	if now := l.claims(); !maps.Equal(now, claims) || len(now) != 3 {
		t.Errorf("claims %v, and now %v", claims, now)
	}
	for name := range claims {
		if l.there(claim, name); volume.IsRetained(claim) || claim.Annotations[component.AnnotationRetainedData] != "" || claim.Labels[v1alpha1.LabelCluster] != "shop" {
			t.Errorf("%s: %v, %v", name, claim.Labels, claim.Annotations)
		}
	}
	if told := l.told(); told.ClusterUID != string(first.UID) || told.DataInstance != "shop-1" {
		t.Errorf("told %+v", told)
	}
	l.eventually("the Jobs are gone", func() bool {
		jobs := &batchv1.JobList{}
		err := l.List(context.Background(), jobs, client.InNamespace(l.ns))
		return err == nil && len(jobs.Items) == 0
	})
}

func TestVolumesAreLeftAsTheyAreUntilAPersonHasDecided(t *testing.T) {
	l := newLab(t)
	first, _ := l.retained()
	if err := l.Delete(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "data-shop-1"}}); err != nil {
		t.Fatal(err)
	}
	l.eventually("its volume is gone", func() bool {
		claim := &corev1.PersistentVolumeClaim{}
		if !l.there(claim, "data-shop-1") {
			return true
		}
		claim.Finalizers = nil
		_ = l.Update(context.Background(), claim)
		return false
	})
	refused := l.shop(withVolumes)
	message := l.awaitCondition(refused, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonVolumesRefused)
	if !strings.Contains(message, "data-shop-1 doesn't exist, the volume of the instance that was primary last") || !strings.Contains(message, "instance: shop-0") {
		t.Errorf("message: %s", message)
	}
	l.beginDeletion(refused)
	l.awaitGone(refused)
	for _, name := range []string{"data-shop-0", "data-shop-2"} {
		claim := &corev1.PersistentVolumeClaim{}
		if !l.there(claim, name) || !volume.IsRetained(claim) || !claim.DeletionTimestamp.IsZero() || volume.RecordOn(claim) == nil {
			t.Errorf("%s: %v, %v", name, claim.Labels, claim.Annotations)
		}
	}
	l.create(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "by-hand"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}, Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-shop-0"},
		}}}},
	})
	decided := l.shop(func(c *v1alpha1.PostgresCluster) { withVolumes(c); c.Spec.Bootstrap.Volumes.Instance = "shop-2" })
	message = l.awaitCondition(decided, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInspectingVolumes)
	if !strings.Contains(message, "Pod by-hand uses PersistentVolumeClaim data-shop-0") {
		t.Errorf("message: %s", message)
	}
	if err := l.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "by-hand"}}, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	l.awaitReplicated(decided)
	if status := decided.Status; status.Identity != first.UID || status.DataInstance != "shop-2" {
		t.Errorf("identity %s, begun by %s", status.Identity, status.DataInstance)
	}
}
