package drill

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
)

// TestAStaleCacheMakesNoRestoreOfADrillThatIsOver: a process that has just begun may see a repository as it was before.
func TestAStaleCacheMakesNoRestoreOfADrillThatIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		since func(*v1alpha1.BackupRepository)
		made  bool
	}{
		"nothing has happened since": {func(*v1alpha1.BackupRepository) {}, true},
		"another status was written, of something else": {func(repo *v1alpha1.BackupRepository) {
			repo.Status.Lineages = []v1alpha1.LineageStatus{{Name: "7-g1"}}
		}, true},
		"the drill is over":      {func(repo *v1alpha1.BackupRepository) { repo.Status.Drill.UnderWay = nil }, false},
		"the drill has ended":    {func(repo *v1alpha1.BackupRepository) { repo.Status.Drill.UnderWay.Outcome = v1alpha1.DrillFailed }, false},
		"another one is run":     {func(repo *v1alpha1.BackupRepository) { repo.Status.Drill.UnderWay.Name = "shop-drill-2" }, false},
		"no drill is wanted":     {func(repo *v1alpha1.BackupRepository) { repo.Spec.Drill = nil }, false},
		"nothing is said of any": {func(repo *v1alpha1.BackupRepository) { repo.Spec.Drill, repo.Status.Drill = nil, nil }, false},
		"it is being deleted": {func(repo *v1alpha1.BackupRepository) {
			repo.DeletionTimestamp, repo.Finalizers = &metav1.Time{Time: noon}, []string{"howdah.dev/x"}
		}, false},
		"it is another of that name": {func(repo *v1alpha1.BackupRepository) { repo.UID = "other" }, false},
	} {
		o := drilling(1)
		now := o.repo.DeepCopy()
		c.since(now)
		api := fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(now).Build()
		r := &Reconciler{Dependencies: manager.Dependencies{Client: api, Live: api}}
		outcome := r.ensureRestore(t.Context(), o)
		restores := &v1alpha1.RestoreList{}
		if err := api.List(t.Context(), restores, client.InNamespace("demo")); err != nil {
			t.Fatal(err)
		}
		if made := len(restores.Items) == 1; made != c.made || outcome.Err != nil || !made && (outcome.Kind != flow.KindWait || outcome.After == 0) {
			t.Errorf("%s: made %t; %+v", name, made, outcome)
		}
	}
	o := drilling(1)
	api := fake.NewClientBuilder().WithScheme(manager.Scheme()).Build()
	r := &Reconciler{Dependencies: manager.Dependencies{Client: api, Live: api}}
	if outcome := r.ensureRestore(t.Context(), o); outcome.Kind != flow.KindWait || outcome.After == 0 {
		t.Errorf("the repository is gone: %+v", outcome)
	}
}
