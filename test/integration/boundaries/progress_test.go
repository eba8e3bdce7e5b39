//go:build integration

package boundaries

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/apiserver"
)

// TestAJobReportsItsProgressAndDecidesNothing: its account may patch the whole status of its object, of which its controller believes what it has
// written there itself.
func TestAJobReportsItsProgressAndDecidesNothing(t *testing.T) {
	apiserver.InstallBoundaries(t)
	admin := apiserver.Client(t)
	namespace := apiserver.Namespace(t, admin)
	backup := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "b"}, Spec: v1alpha1.BackupSpec{Cluster: v1alpha1.LocalReference{Name: "shop"}}}
	made := controllers(namespace)["backup-controller"]
	if err := admin.Create(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	if err := made.normal().Ensure(t.Context(), apiserver.ClientAs(t, "backup-controller")); err != nil {
		t.Fatal(err)
	}
	backup.Status.Version, backup.Status.StartLSN = "17.6", "0/3000028"
	if err := admin.Status().Update(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	as := apiserver.ClientInPod(t, namespace, made.account, "b-backup-2-x")
	patch := func(status string) func() error {
		return func() error {
			object := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "b"}}
			return client.NewDryRunClient(as).Status().Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(`{"status":`+status+`}`)))
		}
	}
	condition := patch(`{"conditions":[{"type":"Succeeded","status":"True","reason":"Completed","message":"","lastTransitionTime":"2026-03-01T12:00:00Z"}]}`)
	awaitRefusal(t, condition)
	for what, do := range map[string]func() error{
		"a condition":         condition,
		"what was recorded":   patch(`{"startLSN":"0/1"}`),
		"the end of a record": patch(`{"version":null}`),
		"both at once":        patch(`{"version":null,"progress":{"phase":"Copying","updatedAt":"2026-03-01T12:00:00Z"}}`),
	} {
		t.Run(what, func(t *testing.T) { refused(t, do()) })
	}
	if err := patch(`{"progress":{"phase":"Copying","doneBytes":7,"updatedAt":"2026-03-01T12:00:00Z"}}`)(); err != nil {
		t.Errorf("its progress is refused: %v", err)
	}
}
