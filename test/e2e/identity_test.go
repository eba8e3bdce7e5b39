//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// writers says whose status each controller writes.
var writers = map[string][]string{
	"db-controller":      {v1alpha1.KindPostgresCluster},
	"backup-controller":  {v1alpha1.KindBackupRepository, v1alpha1.KindBackup, v1alpha1.KindBackupSchedule},
	"restore-controller": {v1alpha1.KindRestore},
	"upgrade-controller": {v1alpha1.KindUpgrade},
	"pooler-controller":  {v1alpha1.KindPooler},
	"drill-controller":   {v1alpha1.KindFailoverDrill, v1alpha1.KindFailoverDrillSchedule},
}

// TestAControllerCanWriteTheStatusOfItsOwnKindsOnly lets each controller's ServiceAccount try every kind. The API server
// decides as usual, but keeps nothing: the real controllers are at work on these objects.
func TestAControllerCanWriteTheStatusOfItsOwnKindsOnly(t *testing.T) {
	config := place.RESTConfig(t)
	admin := place.ClientFor(t, config)
	objects := oneOfEachKind(t, admin)
	for controller, own := range writers {
		account := rest.CopyConfig(config)
		account.Impersonate.UserName = "system:serviceaccount:howdah-system:" + controller
		writer := place.ClientFor(t, account)
		for kind, object := range objects {
			t.Run(fmt.Sprintf("%s and the status of a %s", controller, kind), func(t *testing.T) {
				patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"observedGeneration":1}}`))
				err := writer.Status().Patch(t.Context(), object.DeepCopyObject().(client.Object), patch, client.DryRunAll)
				switch {
				case slices.Contains(own, kind) && err != nil:
					t.Errorf("it is its own, but: %v", err)
				case !slices.Contains(own, kind) && !apierrors.IsForbidden(err):
					t.Errorf("it is another's, but the API server said: %v", err)
				}
			})
		}
	}
}

// oneOfEachKind makes an object of every kind that no controller can do anything with.
func oneOfEachKind(t *testing.T, admin client.Client) map[string]client.Object {
	t.Helper()
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "identity-"}}
	create(t, admin, space)
	t.Cleanup(func() {
		if err := admin.Delete(context.Background(), space); err != nil {
			t.Error(err)
		}
	})
	named := metav1.ObjectMeta{Name: "nobody", Namespace: space.Name}
	nowhere := v1alpha1.LocalReference{Name: "nowhere"}
	objects := map[string]client.Object{
		v1alpha1.KindPostgresCluster: &v1alpha1.PostgresCluster{ObjectMeta: named, Spec: v1alpha1.PostgresClusterSpec{
			Version: 18, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")},
			Archive: &v1alpha1.ArchiveSpec{Repository: nowhere}, // it waits for that
		}},
		v1alpha1.KindBackupRepository: &v1alpha1.BackupRepository{ObjectMeta: named, Spec: v1alpha1.BackupRepositorySpec{
			S3: v1alpha1.S3Spec{Bucket: "nowhere", Endpoint: "https://localhost:1", Credentials: &v1alpha1.S3Credentials{SecretName: "none"}},
		}},
		v1alpha1.KindBackup:         &v1alpha1.Backup{ObjectMeta: named, Spec: v1alpha1.BackupSpec{Cluster: nowhere}},
		v1alpha1.KindBackupSchedule: &v1alpha1.BackupSchedule{ObjectMeta: named, Spec: v1alpha1.BackupScheduleSpec{Cluster: nowhere, Schedule: "@yearly", Suspend: true}},
		v1alpha1.KindRestore: &v1alpha1.Restore{ObjectMeta: named, Spec: v1alpha1.RestoreSpec{
			Source:      v1alpha1.RestoreSource{Backup: ptr.To(nowhere)},
			Destination: v1alpha1.RestoreDestination{NewCluster: &v1alpha1.NewCluster{Name: "elsewhere"}},
		}},
		v1alpha1.KindUpgrade: &v1alpha1.Upgrade{ObjectMeta: named, Spec: v1alpha1.UpgradeSpec{Cluster: nowhere, Version: 18}},
		v1alpha1.KindPooler:  &v1alpha1.Pooler{ObjectMeta: named, Spec: v1alpha1.PoolerSpec{Cluster: nowhere, Instances: 1}},
		v1alpha1.KindFailoverDrill: &v1alpha1.FailoverDrill{ObjectMeta: named, Spec: v1alpha1.FailoverDrillSpec{
			Cluster: nowhere, Fault: v1alpha1.FailoverFault{Type: v1alpha1.FaultSwitchover}, MaxPerWeek: 1,
		}},
		v1alpha1.KindFailoverDrillSchedule: &v1alpha1.FailoverDrillSchedule{ObjectMeta: named, Spec: v1alpha1.FailoverDrillScheduleSpec{
			ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"drill": "nowhere"}}, Suspend: true,
			Template: v1alpha1.FailoverDrillTemplate{Fault: v1alpha1.FailoverFault{Type: v1alpha1.FaultSwitchover}},
		}},
	}
	for _, object := range objects {
		create(t, admin, object)
	}
	return objects
}

func create(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatalf("%T: %v", object, err)
	}
}
