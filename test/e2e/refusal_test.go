//go:build e2e

package e2e

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

func keyOf(object client.Object) client.ObjectKey { return client.ObjectKeyFromObject(object) }

func TestBadInputGetsItsSentenceAndNothingIsTouched(t *testing.T) {
	t.Parallel()
	b := newBed(t, "minio")
	t.Run("an unknown version", func(t *testing.T) {
		cluster := b.NewCluster("unknown", 99)
		if err := b.Create(t.Context(), cluster); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "must be 15, 17 or 18") {
			t.Errorf("version 99: %v", err)
		}
	})
	t.Run("a repository that doesn't exist", func(t *testing.T) {
		cluster := b.NewCluster("nowhere", 17)
		cluster.Spec.Archive.Repository.Name = "none"
		b.Must(b.Create(t.Context(), cluster))
		b.AwaitReason(cluster, v1alpha1.ConditionReady, v1alpha1.ReasonRepositoryNotFound, "none")
		b.nothingOf(cluster.Name)
	})
	t.Run("a wrong credential", func(t *testing.T) {
		repo := b.MakeRepository("wrong", "not-the-key-of-anybody")
		b.AwaitReason(repo, v1alpha1.ConditionReady, v1alpha1.ReasonAccessDenied, "")
	})
	t.Run("a Secret that isn't there", func(t *testing.T) {
		repo := b.MakeRepository("lost", "x")
		b.Must(b.Delete(t.Context(), &corev1.Secret{ObjectMeta: b.Meta("lost")}))
		b.AwaitReason(repo, v1alpha1.ConditionReady, v1alpha1.ReasonSecretNotFound, "lost")
	})
	t.Run("a name that is taken", func(t *testing.T) {
		foreign := &corev1.Service{ObjectMeta: b.Meta("taken-rw"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}}
		b.Must(b.Create(t.Context(), foreign))
		cluster := b.NewCluster("taken", 17)
		b.Must(b.Create(t.Context(), cluster))
		b.AwaitReason(cluster, v1alpha1.ConditionReady, v1alpha1.ReasonNameConflict, "taken-rw")
		b.Must(b.Get(t.Context(), keyOf(foreign), foreign))
		if len(foreign.OwnerReferences) > 0 || len(foreign.Labels) > 0 {
			t.Error("somebody else's Service was touched")
		}
	})
	t.Run("a backup of a cluster that doesn't exist", func(t *testing.T) {
		backup := &v1alpha1.Backup{ObjectMeta: b.Meta("of-nothing"), Spec: v1alpha1.BackupSpec{Cluster: v1alpha1.LocalReference{Name: "none"}}}
		b.Must(b.Create(t.Context(), backup))
		b.AwaitReason(backup, v1alpha1.ConditionSucceeded, v1alpha1.ReasonClusterNotFound, "none")
	})
	t.Run("an upgrade of a cluster that doesn't exist", func(t *testing.T) {
		upgrade := &v1alpha1.Upgrade{ObjectMeta: b.Meta("of-nothing"), Spec: v1alpha1.UpgradeSpec{Cluster: v1alpha1.LocalReference{Name: "none"}, Version: 18}}
		b.Must(b.Create(t.Context(), upgrade))
		b.AwaitReason(upgrade, v1alpha1.ConditionSucceeded, v1alpha1.ReasonClusterNotFound, "none")
	})
}

// nothingOf fails the test if anything was made for a cluster.
func (b *bed) nothingOf(cluster string) {
	b.Helper()
	for _, list := range []client.ObjectList{&appsv1.StatefulSetList{}, &corev1.PersistentVolumeClaimList{}, &corev1.SecretList{}, &corev1.ServiceList{}} {
		b.Must(b.List(b.Context(), list, client.InNamespace(b.Namespace), client.MatchingLabels{v1alpha1.LabelCluster: cluster}))
		if items := meta.LenList(list); items > 0 {
			b.Errorf("%d of %T were made for %s", items, list, cluster)
		}
	}
}
