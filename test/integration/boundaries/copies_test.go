//go:build integration

package boundaries

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/clustercopy"
	"howdah.dev/howdah/pkg/majorupdate"
	"howdah.dev/howdah/pkg/workload"
	"howdah.dev/howdah/test/testkit/apiserver"
)

// copies are what the controllers create that work on temporary copies.
func copies(namespace string) map[string]clustercopy.Copy {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "x", UID: types.UID("u")}
	return map[string]clustercopy.Copy{
		"backup-controller": {
			Owner: &v1alpha1.BackupRepository{ObjectMeta: meta}, Kind: v1alpha1.KindBackupRepository, Name: "shop-drill-0123abcd", Source: clustercopy.OfCluster("shop", "minio"),
		},
		"upgrade-controller": {
			Owner: &v1alpha1.Upgrade{ObjectMeta: meta}, Kind: v1alpha1.KindUpgrade, Name: "shop-rehearsal-0123abcd", Source: clustercopy.OfCluster("shop", "minio"),
		},
		"restore-controller": {
			Owner: &v1alpha1.Restore{ObjectMeta: meta}, Kind: v1alpha1.KindRestore, Name: "shop-copy-0123abcd", Source: clustercopy.OfCluster("shop", "minio"),
		},
	}
}

// copyUpgrade is an Upgrade of the copy of a rehearsal.
func copyUpgrade(of *v1alpha1.Restore) *v1alpha1.Upgrade {
	return &v1alpha1.Upgrade{
		ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: of.Name, OwnerReferences: of.OwnerReferences},
		Spec:       v1alpha1.UpgradeSpec{Cluster: v1alpha1.LocalReference{Name: of.Name}, Version: 18},
	}
}

func TestDrillsRehearsalsAndRestoresOfTablesRestoreTemporaryCopiesAndNothingElse(t *testing.T) {
	apiserver.InstallBoundaries(t)
	admin := apiserver.Client(t)
	namespace := apiserver.Namespace(t, admin)
	for name, of := range copies(namespace) {
		as := apiserver.ClientAs(t, name)
		if err := as.Create(t.Context(), of.Restore()); err != nil {
			t.Fatalf("its own Restore is refused: %v", err)
		}
		if err := as.Delete(t.Context(), of.Restore()); err != nil {
			t.Fatalf("it can't delete its own Restore: %v", err)
		}
		for what, change := range map[string]func(*v1alpha1.Restore){
			"in place": func(r *v1alpha1.Restore) {
				r.Spec.Destination = v1alpha1.RestoreDestination{InPlace: &v1alpha1.InPlace{Name: "shop"}}
			},
			"into a cluster that stays":     func(r *v1alpha1.Restore) { r.Spec.Destination.NewCluster.Temporary = false },
			"into another image":            func(r *v1alpha1.Restore) { r.Spec.Destination.NewCluster.Image = "evil" },
			"into a cluster of other name":  func(r *v1alpha1.Restore) { r.Spec.Destination.NewCluster.Name = "shop" },
			"with its subscriptions":        func(r *v1alpha1.Restore) { r.Spec.Destination.NewCluster.Subscriptions = v1alpha1.SubscriptionsEnabled },
			"of nobody":                     func(r *v1alpha1.Restore) { r.OwnerReferences = nil },
			"of another kind":               func(r *v1alpha1.Restore) { r.OwnerReferences[0].Kind = "Backup" },
			"of an owner that isn't it all": func(r *v1alpha1.Restore) { r.OwnerReferences[0].Controller = nil },
			"of another name":               func(r *v1alpha1.Restore) { r.Name, r.Spec.Destination.NewCluster.Name = "theirs", "theirs" },
		} {
			t.Run(name+"/a Restore "+what, func(t *testing.T) {
				restore := of.Restore()
				change(restore)
				refused(t, client.NewDryRunClient(as).Create(t.Context(), restore))
			})
		}
		if name == "restore-controller" { // it deletes those that have expired
			continue
		}
		t.Run(name+"/the end of another's Restore", func(t *testing.T) {
			theirs := of.Restore()
			theirs.Name, theirs.OwnerReferences = "theirs-"+name, nil
			if err := admin.Create(t.Context(), theirs); err != nil {
				t.Fatal(err)
			}
			refused(t, client.NewDryRunClient(as).Delete(t.Context(), theirs))
		})
	}
}

func TestRehearsalsUpgradeCopiesAndNothingElse(t *testing.T) {
	apiserver.InstallBoundaries(t)
	namespace := apiserver.Namespace(t, apiserver.Client(t))
	of, as := copies(namespace)["upgrade-controller"].Restore(), apiserver.ClientAs(t, "upgrade-controller")
	own := copyUpgrade(of)
	if err := as.Create(t.Context(), own); err != nil {
		t.Fatalf("its own Upgrade is refused: %v", err)
	}
	if err := as.Delete(t.Context(), own); err != nil {
		t.Errorf("it can't delete its own Upgrade: %v", err)
	}
	for what, change := range map[string]func(*v1alpha1.Upgrade){
		"of another cluster": func(u *v1alpha1.Upgrade) { u.Spec.Cluster.Name = "shop" },
		"of nobody":          func(u *v1alpha1.Upgrade) { u.OwnerReferences = nil },
		"of another name":    func(u *v1alpha1.Upgrade) { u.Name, u.Spec.Cluster.Name = "shop", "shop" },
		"that is decided":    func(u *v1alpha1.Upgrade) { u.Spec.Decision = v1alpha1.UpgradeConfirm },
		"that rehearses":     func(u *v1alpha1.Upgrade) { u.Spec.Rehearsal = &v1alpha1.Rehearsal{} },
	} {
		t.Run(what, func(t *testing.T) {
			upgrade := copyUpgrade(of)
			change(upgrade)
			refused(t, client.NewDryRunClient(as).Create(t.Context(), upgrade))
		})
	}
	check := workload.Job{
		Name: of.Name + "-check", Owner: &v1alpha1.Upgrade{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x", UID: "u"}}, Cluster: of.Name,
		Component: workload.ComponentUpgradeCheck, Image: "postgres:18", Agent: workload.Agent{Image: agentImage}, Args: []string{"drill"}, Spec: agentapi.DrillJob{},
		ClientTLSSecret: of.Name + "-upgrade", Secrets: map[string][]string{of.Name + "-superuser": {"password"}},
	}
	if err := check.Ensure(t.Context(), as); err != nil {
		t.Errorf("the Job that checks the copy is refused: %v", err)
	}
}

func TestAutomaticUpgradesGoByThePolicyOfTheirCluster(t *testing.T) {
	apiserver.InstallBoundaries(t)
	namespace, as := apiserver.Namespace(t, apiserver.Client(t)), apiserver.ClientAs(t, "upgrade-controller")
	decision := majorupdate.Decide(majorupdate.Facts{
		Cluster: &v1alpha1.PostgresCluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop", UID: "u"},
			Spec:       v1alpha1.PostgresClusterSpec{Version: 18, Updates: &v1alpha1.Updates{Major: v1alpha1.UpdateAutomatic}},
			Status: v1alpha1.PostgresClusterStatus{
				MajorVersion: 15, Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
			},
		},
		Images: map[int32]string{18: "postgres:18"},
	})
	check := decision.Create
	if check == nil {
		t.Fatal(decision.Message)
	}
	own := check.DeepCopy()
	own.UID = "x"
	own.Name, own.UID, own.Spec.CheckOnly = majorupdate.SuccessorName(own), "", false
	for _, wanted := range []*v1alpha1.Upgrade{check, own} {
		if err := as.Create(t.Context(), wanted.DeepCopy()); err != nil {
			t.Errorf("Upgrade %s is refused: %v", wanted.Name, err)
		}
	}
	for what, change := range map[string]func(*v1alpha1.Upgrade){
		"that goes by no policy": func(u *v1alpha1.Upgrade) { u.Spec.Automatic = false },
		"of another cluster":     func(u *v1alpha1.Upgrade) { u.Spec.Cluster.Name = "other" },
		"of nobody":              func(u *v1alpha1.Upgrade) { u.OwnerReferences = nil },
		"of another kind":        func(u *v1alpha1.Upgrade) { u.OwnerReferences[0].Kind = "Upgrade" },
		"of another name":        func(u *v1alpha1.Upgrade) { u.Name = "shop" },
		"that is decided":        func(u *v1alpha1.Upgrade) { u.Spec.Decision = v1alpha1.UpgradeConfirm },
	} {
		t.Run(what, func(t *testing.T) {
			upgrade := own.DeepCopy()
			change(upgrade)
			refused(t, client.NewDryRunClient(as).Create(t.Context(), upgrade))
		})
	}
	for _, other := range []string{"backup-controller", "restore-controller"} {
		t.Run("by the "+other, func(t *testing.T) {
			refused(t, client.NewDryRunClient(apiserver.ClientAs(t, other)).Create(t.Context(), own.DeepCopy()))
		})
	}
}
