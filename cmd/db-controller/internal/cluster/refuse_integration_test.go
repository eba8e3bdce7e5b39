//go:build integration

package cluster

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// untouched: nothing of the cluster was made.
func (l *lab) untouched() {
	l.Helper()
	claims, services, secrets := &corev1.PersistentVolumeClaimList{}, &corev1.ServiceList{}, &corev1.SecretList{}
	for _, list := range []client.ObjectList{claims, services, secrets} {
		if err := l.List(context.Background(), list, client.InNamespace(l.ns), client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}); err != nil {
			l.Fatal(err)
		}
	}
	if n := len(claims.Items) + len(services.Items) + len(secrets.Items); n > 0 {
		l.Errorf("%d objects were made", n)
	}
}

func TestAnUnknownVersionIsRefusedBeforeAnythingIsMade(t *testing.T) {
	l := newLab(t)
	shop := l.shop(func(c *v1alpha1.PostgresCluster) { c.Spec.Version = 99 })
	message := l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonUnknownVersion)
	if message != "PostgreSQL 99 is not known here; known are 15, 17, 18: write one of them in spec.version, or set spec.image" {
		t.Errorf("message: %s", message)
	}
	l.untouched()
	l.change(shop, func() { shop.Spec.Version = 18 })
	l.awaitRunning(shop)
}

func TestAMissingRepositoryIsRefusedBeforeAnythingIsMade(t *testing.T) {
	l := newLab(t)
	shop := l.shop(archived)
	message := l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRepositoryNotFound)
	if !strings.Contains(message, "there is no BackupRepository minio") {
		t.Errorf("message: %s", message)
	}
	l.untouched()
	l.create(repository(l.ns))
	message = l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSecretNotFound)
	if !strings.Contains(message, "there is no Secret s3") {
		t.Errorf("message: %s", message)
	}
	l.untouched()
	l.create(credentials(l.ns))
	l.change(shop, func() { shop.Annotations = map[string]string{"example.com/wake": "up"} })
	l.awaitRunning(shop)
	if shop.Status.Archive.Repository != "minio" || !strings.HasPrefix(shop.Status.Archive.Lineage, "7000000000000000001-g") {
		t.Errorf("archive: %+v", shop.Status.Archive)
	}
}

func TestARepositoryThatVanishesLaterStopsNothing(t *testing.T) {
	l := newLab(t)
	repo := repository(l.ns)
	l.create(repo)
	l.create(credentials(l.ns))
	shop := l.shop(archived)
	l.awaitRunning(shop)
	before, after, told, stillTold := &corev1.Pod{}, &corev1.Pod{}, &corev1.ConfigMap{}, &corev1.ConfigMap{}
	l.there(before, "shop-0")
	l.there(told, "shop-config")
	if err := l.Delete(context.Background(), repo); err != nil {
		t.Fatal(err)
	}
	l.awaitCondition(shop, v1alpha1.ConditionArchiving, metav1.ConditionFalse, v1alpha1.ReasonRepositoryNotFound)
	l.settle()
	l.awaitRunning(shop)
	l.there(after, "shop-0")
	l.there(stillTold, "shop-config")
	if after.UID != before.UID || told.Data["agent.json"] != stillTold.Data["agent.json"] {
		t.Error("the database was touched")
	}
}

func TestANameThatIsTakenIsRefusedAndItsOwnerLeftAlone(t *testing.T) {
	l := newLab(t)
	l.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "shop-app"}, StringData: map[string]string{"a": "b"}})
	shop := l.shop(nil)
	message := l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNameConflict)
	if !strings.Contains(message, "Secret shop-app") {
		t.Errorf("message: %s", message)
	}
	l.untouched()
}

func TestALeftVolumeOfAnotherClusterIsNotTaken(t *testing.T) {
	l := newLab(t)
	shop := l.shop(func(c *v1alpha1.PostgresCluster) { c.Spec.DeletionPolicy.Volumes = v1alpha1.VolumesRetain })
	l.awaitRunning(shop)
	l.delete(shop)
	again := l.shop(nil)
	message := l.awaitCondition(again, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNameConflict)
	if !strings.Contains(message, "PersistentVolumeClaim data-shop-0 was left behind by a PostgresCluster shop that was deleted") &&
		!strings.Contains(message, "belongs to somebody else") { // nothing collects the old cluster's garbage here
		t.Errorf("message: %s", message)
	}
}

// archived lets a cluster archive into the repository minio.
func archived(c *v1alpha1.PostgresCluster) {
	c.Spec.Archive = &v1alpha1.ArchiveSpec{Repository: v1alpha1.LocalReference{Name: "minio"}}
}

func repository(ns string) *v1alpha1.BackupRepository {
	return &v1alpha1.BackupRepository{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "minio"},
		Spec: v1alpha1.BackupRepositorySpec{S3: v1alpha1.S3Spec{
			Endpoint: "https://minio.example.com:9000", Bucket: "backups", Credentials: &v1alpha1.S3Credentials{SecretName: "s3"},
		}},
	}
}

func TestAnArchiveWhoseSecretIsMissingStopsNoRunningDatabase(t *testing.T) {
	l := newLab(t)
	l.create(repository(l.ns))
	shop := l.shop(nil)
	l.awaitRunning(shop)
	before, after := &corev1.Pod{}, &corev1.Pod{}
	l.there(before, "shop-0")
	l.change(shop, func() { archived(shop) })
	l.awaitCondition(shop, v1alpha1.ConditionArchiving, metav1.ConditionFalse, v1alpha1.ReasonSecretNotFound)
	l.settle()
	if l.there(after, "shop-0"); after.UID != before.UID {
		t.Fatal("the pod was replaced by one that can't start")
	}
	l.create(credentials(l.ns))
	l.change(shop, func() { shop.Annotations = map[string]string{"example.com/wake": "up"} })
	l.eventually("a pod with the credentials", func() bool { return l.there(after, "shop-0") && after.UID != before.UID })
	l.awaitRunning(shop)
}

func credentials(ns string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "s3"}}
}

// delete deletes a cluster and waits until it is gone.
func (l *lab) delete(cluster *v1alpha1.PostgresCluster) {
	l.Helper()
	if err := l.Delete(context.Background(), cluster); err != nil {
		l.Fatal(err)
	}
	l.eventually("the cluster is gone", func() bool { return !l.there(&v1alpha1.PostgresCluster{}, cluster.Name) })
}
