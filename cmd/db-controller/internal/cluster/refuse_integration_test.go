//go:build integration

package cluster

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/subset"
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

func TestAMissingRepositoryIsRefusedBeforeAnythingIsCreated(t *testing.T) {
	l := newLab(t)
	shop := l.shop(archived)
	message := l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRepositoryNotFound)
	if !strings.Contains(message, "There is no BackupRepository minio") {
		t.Errorf("message: %s", message)
	}
	l.untouched()
	l.create(repository(l.ns))
	message = l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSecretNotFound)
	if !strings.Contains(message, "There is no Secret s3") {
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
	subset.OneIn(t, 2)
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	pod := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "other"}},
		Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "a", Image: "a"}}},
	}
	always := *pod.DeepCopy()
	always.Spec.RestartPolicy = corev1.RestartPolicyAlways
	claim := corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}
	for kind, taken := range map[string]client.Object{
		"Secret":                &corev1.Secret{ObjectMeta: named("shop-app"), StringData: map[string]string{"a": "b"}},
		"ConfigMap":             &corev1.ConfigMap{ObjectMeta: named("shop-config")},
		"ServiceAccount":        &corev1.ServiceAccount{ObjectMeta: named("shop-instance")},
		"Service":               &corev1.Service{ObjectMeta: named("shop-rw"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
		"EndpointSlice":         &discoveryv1.EndpointSlice{ObjectMeta: named("shop-rw"), AddressType: discoveryv1.AddressTypeIPv4},
		"Lease":                 &coordinationv1.Lease{ObjectMeta: named("shop")},
		"PodDisruptionBudget":   &policyv1.PodDisruptionBudget{ObjectMeta: named("shop")},
		"PersistentVolumeClaim": &corev1.PersistentVolumeClaim{ObjectMeta: named("data-shop-1"), Spec: claim},
		"Job":                   &batchv1.Job{ObjectMeta: named("shop-init"), Spec: batchv1.JobSpec{Template: pod}},
		"StatefulSet": &appsv1.StatefulSet{ObjectMeta: named("shop"), Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](0), Selector: &metav1.LabelSelector{MatchLabels: always.Labels}, Template: always,
		}},
	} {
		t.Run(kind, func(t *testing.T) {
			l := newLab(t)
			taken.SetNamespace(l.ns)
			l.create(taken)
			before := taken.DeepCopyObject().(client.Object)
			shop := l.shop(three)
			message := l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNameConflict)
			if !strings.Contains(message, kind+" "+taken.GetName()+" already exists and belongs to somebody else") {
				t.Errorf("message: %s", message)
			}
			l.settle()
			if l.get(taken); !equality.Semantic.DeepEqual(ours(taken), ours(before)) {
				t.Errorf("it was changed: %+v", taken)
			}
			l.nothingStarted(taken)
			if kind == "PersistentVolumeClaim" || kind == "Job" {
				return // it is protected, and nothing here lets it go
			}
			if err := l.Delete(t.Context(), taken); err != nil {
				t.Fatal(err)
			}
			l.awaitReplicated(shop)
		})
	}
}

// ours is what a db-controller could change of an object that is somebody else's.
func ours(object client.Object) []any {
	return []any{object.GetUID(), object.GetLabels(), object.GetAnnotations(), object.GetOwnerReferences(), object.GetGeneration(), object.GetDeletionTimestamp()}
}

// nothingStarted: no volume, no pod and no Job was made where something is by a name of theirs, or of anything else.
func (l *lab) nothingStarted(taken client.Object) {
	l.Helper()
	for _, list := range []client.ObjectList{&corev1.PersistentVolumeClaimList{}, &appsv1.StatefulSetList{}, &batchv1.JobList{}, &corev1.PodList{}} {
		if err := l.List(l.Context(), list, client.InNamespace(l.ns)); err != nil {
			l.Fatal(err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			l.Fatal(err)
		}
		for _, item := range items {
			if made := item.(client.Object); made.GetUID() != taken.GetUID() {
				l.Errorf("%T %s was made", made, made.GetName())
			}
		}
	}
}

func TestALeftVolumeOfAnotherClusterIsNotTaken(t *testing.T) {
	l := newLab(t)
	shop := l.shop(func(c *v1alpha1.PostgresCluster) { c.Spec.DeletionPolicy.Volumes = v1alpha1.VolumesRetain })
	l.awaitRunning(shop)
	l.delete(shop)
	again := l.shop(nil)
	message := l.awaitCondition(again, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNameConflict)
	if !strings.Contains(message, "PersistentVolumeClaim data-shop-0 was left behind by PostgresCluster shop, which was deleted") &&
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
