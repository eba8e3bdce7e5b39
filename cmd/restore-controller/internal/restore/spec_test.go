package restore

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/manager"
)

func recorded(t *testing.T, spec v1alpha1.PostgresClusterSpec, wrapped bool) json.RawMessage {
	t.Helper()
	var value any = spec
	if wrapped {
		value = map[string]any{"spec": spec, "metadata": map[string]any{"name": "shop"}}
	}
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func shopSpec() v1alpha1.PostgresClusterSpec {
	return v1alpha1.PostgresClusterSpec{
		Version: 17, Image: "postgres:17", Instances: 1, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("10Gi")},
		PostgreSQL:      v1alpha1.PostgreSQLSpec{Parameters: map[string]v1alpha1.ParameterValue{"work_mem": "8MB", "jit": "off"}},
		Bootstrap:       &v1alpha1.Bootstrap{Initdb: &v1alpha1.BootstrapInitdb{Database: "shop", Owner: "keeper"}},
		Archive:         &v1alpha1.ArchiveSpec{Repository: v1alpha1.LocalReference{Name: "elsewhere"}},
		SuperuserAccess: true, DeletionPolicy: v1alpha1.DeletionPolicy{Volumes: v1alpha1.VolumesRetain},
	}
}

func restoreInto(cluster v1alpha1.NewCluster) *v1alpha1.Restore {
	return &v1alpha1.Restore{
		ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "demo", UID: "uid"},
		Spec:       v1alpha1.RestoreSpec{Destination: v1alpha1.RestoreDestination{NewCluster: &cluster}},
	}
}

func TestTheNewClusterIsAsTheOldOneWas(t *testing.T) {
	for _, wrapped := range []bool{true, false} {
		header := &backup.Header{PGMajor: 15, Cluster: backup.Cluster{Object: recorded(t, shopSpec(), wrapped)}}
		spec, _, err := newSpec(header, restoreInto(v1alpha1.NewCluster{Name: "copy"}), "repo", provenance{trusted: true})
		if err != nil {
			t.Fatal(err)
		}
		if spec.Version != 15 {
			t.Errorf("version %d is not that of the data", spec.Version)
		}
		if b := spec.Bootstrap; b.Initdb != nil || b.Restore == nil || *b.Restore != (v1alpha1.BootstrapRestore{Name: "r", Database: "shop", Owner: "keeper"}) {
			t.Errorf("bootstrap: %+v", spec.Bootstrap)
		}
		if spec.Archive.Repository.Name != "repo" || spec.Image != "postgres:17" || !spec.SuperuserAccess || spec.DeletionPolicy.Volumes != v1alpha1.VolumesRetain {
			t.Errorf("%+v", spec)
		}
	}
}

func TestRequestsToTheOldClusterAreNotTakenOver(t *testing.T) {
	old := shopSpec()
	old.Switchover, old.Hibernate = &v1alpha1.Switchover{To: "shop-1", Token: "a"}, true
	old.Failover = &v1alpha1.Failover{Profile: "Fast", Instances: []v1alpha1.FailoverInstance{{Name: "shop-1"}}, Fenced: []v1alpha1.InstanceName{"shop-2"}}
	old.DelayedReplicas = []v1alpha1.DelayedReplica{{Name: "shop-1"}}
	old.Databases = []v1alpha1.Database{{Name: "orders", Subscriptions: []v1alpha1.Subscription{{Name: "s"}}}, {Name: "wanted-back", Ensure: v1alpha1.Absent}}
	header := &backup.Header{PGMajor: 15, Cluster: backup.Cluster{Object: recorded(t, old, true)}}
	spec, _, err := newSpec(header, restoreInto(v1alpha1.NewCluster{Name: "copy"}), "repo", provenance{trusted: true})
	if err != nil || spec.Failover.Profile != "Fast" || len(spec.Failover.Instances)+len(spec.Failover.Fenced) > 0 {
		t.Errorf("%+v, %v", spec.Failover, err)
	}
	if err != nil || spec.Switchover != nil || spec.DelayedReplicas != nil || spec.Hibernate || len(spec.Databases) != 1 || spec.Databases[0].Name != "orders" || spec.Databases[0].Subscriptions != nil {
		t.Errorf("%+v, %v", spec, err)
	}
}

// TestACopyTakesNoNamesAwayFromItsCluster: an annotation of a Service may register a host name, and a load balancer costs money.
func TestACopyTakesNoNamesAwayFromItsCluster(t *testing.T) {
	old := shopSpec()
	old.Services.RW = v1alpha1.ServiceTemplate{Type: "LoadBalancer", Annotations: map[string]string{"external-dns.alpha.kubernetes.io/hostname": "db.example.com"}}
	old.TLS.DNSNames = []v1alpha1.DNSName{"db.example.com"}
	for _, c := range []struct {
		namespace, name string
		kept            bool
	}{{"demo", "shop", true}, {"demo", "copy", false}, {"production", "shop", false}} {
		header := &backup.Header{PGMajor: 17, Cluster: backup.Cluster{Namespace: c.namespace, Name: "shop", Object: recorded(t, old, true)}}
		spec, _, err := newSpec(header, restoreInto(v1alpha1.NewCluster{Name: c.name}), "repo", provenance{trusted: true})
		if err != nil || (spec.Services.RW.Type != "") != c.kept || (len(spec.TLS.DNSNames) > 0) != c.kept {
			t.Errorf("%s/shop restored as demo/%s: %+v, %+v, %v", c.namespace, c.name, spec.Services, spec.TLS, err)
		}
	}
}

func TestOverridesReplaceAndAdd(t *testing.T) {
	class := "fast"
	header := &backup.Header{PGMajor: 17, Cluster: backup.Cluster{Object: recorded(t, shopSpec(), true)}}
	spec, _, err := newSpec(header, restoreInto(v1alpha1.NewCluster{
		Name: "copy", Storage: &v1alpha1.NewStorage{Size: "20Gi", StorageClassName: &class},
		Parameters: map[string]v1alpha1.ParameterValue{"jit": "on", "max_connections": "50"},
	}), "repo", provenance{trusted: true})
	if err != nil {
		t.Fatal(err)
	}
	if spec.Storage.Size.String() != "20Gi" || *spec.Storage.StorageClassName != "fast" {
		t.Errorf("storage: %+v", spec.Storage)
	}
	p := spec.PostgreSQL.Parameters
	if len(p) != 3 || p["work_mem"] != "8MB" || p["jit"] != "on" || p["max_connections"] != "50" {
		t.Errorf("parameters: %v", p)
	}
}

// What a backup holds is the same with a WAL volume and without one.
func TestTheNewClusterHasAWALVolumeIfTheOldOneHadOrItIsAskedFor(t *testing.T) {
	with := shopSpec()
	with.Storage.WAL = &v1alpha1.WALStorage{Size: resource.MustParse("4Gi"), AutoGrow: &v1alpha1.AutoGrow{Limit: resource.MustParse("8Gi")}}
	for name, c := range map[string]struct {
		recorded v1alpha1.PostgresClusterSpec
		wanted   *v1alpha1.NewWALStorage
		want     string // size
		refused  bool
	}{
		"as it was, without": {shopSpec(), nil, "", false},
		"as it was, with":    {with, nil, "4Gi", false},
		"left out":           {with, &v1alpha1.NewWALStorage{None: true}, "", false},
		"larger":             {with, &v1alpha1.NewWALStorage{Size: "6Gi"}, "6Gi", false},
		"added":              {shopSpec(), &v1alpha1.NewWALStorage{Size: "2Gi"}, "2Gi", false},
		"added of no size":   {shopSpec(), &v1alpha1.NewWALStorage{StorageClassName: new(string)}, "", true},
	} {
		header := &backup.Header{PGMajor: 17, Cluster: backup.Cluster{Object: recorded(t, c.recorded, true)}}
		spec, _, err := newSpec(header, restoreInto(v1alpha1.NewCluster{Name: "copy", Storage: &v1alpha1.NewStorage{WAL: c.wanted}}), "repo", provenance{trusted: true})
		if (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			continue
		}
		size := ""
		if wal := spec.Storage.WAL; wal != nil {
			size = wal.Size.String()
		}
		if size != c.want {
			t.Errorf("%s: %q, want %q", name, size, c.want)
		}
	}
}

func TestStorageThatIsTooSmallIsRefused(t *testing.T) {
	header := &backup.Header{PGMajor: 17, Cluster: backup.Cluster{Object: recorded(t, shopSpec(), true)}, Totals: backup.Totals{LogicalBytes: 3 << 30}}
	_, _, err := newSpec(header, restoreInto(v1alpha1.NewCluster{Name: "copy", Storage: &v1alpha1.NewStorage{Size: "2Gi"}}), "repo", provenance{trusted: true})
	if err == nil || !strings.Contains(err.Error(), "the backup holds 3Gi, and a volume of 2Gi is too small") {
		t.Errorf("%v", err)
	}
	header.Cluster.Object = nil
	if _, _, err := newSpec(header, restoreInto(v1alpha1.NewCluster{Name: "copy"}), "repo", provenance{trusted: true}); err == nil || !strings.Contains(err.Error(), "storage.size") {
		t.Errorf("without a record: %v", err)
	}
}

func TestTheImageIsTheClustersOwnOrTheSuites(t *testing.T) {
	r := &Reconciler{Dependencies: manager.Dependencies{Images: manager.Images{17: "suite:17"}}}
	for name, test := range map[string]struct {
		header backup.Header
		image  string
		want   string
	}{
		"the cluster's own":          {backup.Header{PGMajor: 17}, "own:17", "own:17"},
		"the suite's":                {backup.Header{PGMajor: 17, Cluster: backup.Cluster{Image: "ran:17"}}, "", "suite:17"},
		"the one that ran, at worst": {backup.Header{PGMajor: 16, Cluster: backup.Cluster{Image: "ran:16"}}, "", "ran:16"},
		"none":                       {backup.Header{PGMajor: 16}, "", ""},
	} {
		got, err := r.imageFor(&test.header, &v1alpha1.PostgresClusterSpec{Image: test.image}, provenance{trusted: true})
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestParametersInSecondsAreRead(t *testing.T) {
	for text, want := range map[string]time.Duration{"300": 5 * time.Minute, "5min": 5 * time.Minute, " 1 h ": time.Hour, "90s": 90 * time.Second, "0": 0} {
		if got, ok := parseSeconds(text); !ok || got != want {
			t.Errorf("%q: %s, %t", text, got, ok)
		}
	}
	for _, text := range []string{"", "soon", "5 parsecs"} {
		if _, ok := parseSeconds(text); ok {
			t.Errorf("%q is read", text)
		}
	}
}

func TestAClusterThatNeverArchivesByTimeNeverSettles(t *testing.T) {
	cluster := &v1alpha1.PostgresCluster{}
	if settle(cluster) <= time.Minute {
		t.Errorf("by default: %s", settle(cluster))
	}
	cluster.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{"archive_timeout": "0"}
	if settle(cluster) != 0 {
		t.Errorf("with archive_timeout=0: %s", settle(cluster))
	}
}

func TestTheNewClusterArchivesWhereItIsToldOrWhereItCanOrNowhere(t *testing.T) {
	final := true
	recordedShop := shopSpec()
	recordedShop.DeletionPolicy.FinalBackup = &final
	header := &backup.Header{PGMajor: 17, Cluster: backup.Cluster{Object: recorded(t, recordedShop, true)}}
	for name, test := range map[string]struct {
		told     *v1alpha1.LocalReference
		readOnly bool
		want     string
	}{
		"where its data comes from":         {nil, false, "repo"},
		"that is read-only":                 {nil, true, ""},
		"that is read-only, and it is told": {&v1alpha1.LocalReference{Name: "own"}, true, "own"},
		"it is told":                        {&v1alpha1.LocalReference{Name: "own"}, false, "own"},
	} {
		restore := restoreInto(v1alpha1.NewCluster{Name: "copy", Repository: test.told})
		o := &observed{restore: restore, repository: &v1alpha1.BackupRepository{Spec: v1alpha1.BackupRepositorySpec{ReadOnly: test.readOnly}}}
		spec, _, err := newSpec(header, restore, archiveTo(o, "repo"), provenance{trusted: true})
		if err != nil {
			t.Fatal(err)
		}
		if test.want == "" && (spec.Archive != nil || spec.DeletionPolicy.FinalBackup != nil) ||
			test.want != "" && (spec.Archive == nil || spec.Archive.Repository.Name != test.want || spec.DeletionPolicy.FinalBackup == nil) {
			t.Errorf("%s: archive %+v, deletion %+v", name, spec.Archive, spec.DeletionPolicy)
		}
		restore.Status.Plan = &v1alpha1.RestorePlan{Repository: "repo", ArchivesTo: test.want}
		if said := unarchived(restore); (said == "") != (test.want != "") {
			t.Errorf("%s: %q", name, said)
		}
	}
}

func TestFewerInstancesConfirmFewerCommits(t *testing.T) {
	for instances, want := range map[int32]int32{1: 0, 2: 1, 3: 2, 5: 2} {
		old := shopSpec()
		old.Instances, old.Synchronous = 3, &v1alpha1.Synchronous{Number: 2}
		header := &backup.Header{PGMajor: 17, Cluster: backup.Cluster{Object: recorded(t, old, true)}}
		spec, _, err := newSpec(header, restoreInto(v1alpha1.NewCluster{Name: "copy", Instances: &instances}), "repo", provenance{trusted: true})
		if err != nil {
			t.Fatal(err)
		}
		got := int32(0)
		if spec.Synchronous != nil {
			got = spec.Synchronous.Number
		}
		if spec.Instances != instances || got != want {
			t.Errorf("%d: %d instances, %d of them confirm", instances, spec.Instances, got)
		}
	}
}

func TestATemporaryClusterArchivesNowhereAndGoesWithItsRestore(t *testing.T) {
	before := shopSpec()
	before.Roles = []v1alpha1.Role{{Name: "reporting", PasswordSecret: &v1alpha1.PasswordSecret{Name: "reporting"}}}
	before.ReplicationSlots = []v1alpha1.ReplicationSlot{{Name: "cdc"}}
	before.Updates = &v1alpha1.Updates{Minor: v1alpha1.UpdateAutomatic}
	before.Instances, before.Synchronous, before.SuperuserAccess = 3, &v1alpha1.Synchronous{Number: 1}, false
	header := &backup.Header{PGMajor: 17, Cluster: backup.Cluster{Object: recorded(t, before, true)}}
	access := true
	restore := restoreInto(v1alpha1.NewCluster{Name: "copy", Temporary: true, SuperuserAccess: &access})
	spec, _, err := newSpec(header, restore, "repo", provenance{trusted: true})
	if err != nil {
		t.Fatal(err)
	}
	if spec.Instances != 1 || spec.Synchronous != nil || spec.Archive != nil || spec.Updates != nil || !spec.SuperuserAccess {
		t.Errorf("spec %+v", spec)
	}
	if len(spec.Roles) != 1 || spec.Roles[0].PasswordSecret != nil {
		t.Errorf("its roles are %+v", spec.Roles)
	}
	if len(spec.ReplicationSlots) != 0 {
		t.Errorf("nobody reads its slots %+v", spec.ReplicationSlots)
	}
	if policy := spec.DeletionPolicy; policy.FinalBackup == nil || *policy.FinalBackup || policy.Volumes != v1alpha1.VolumesDelete {
		t.Errorf("it leaves something behind: %+v", policy)
	}
	if cluster := newCluster(restore, spec); !metav1.IsControlledBy(cluster, restore) {
		t.Errorf("its owners are %+v", cluster.OwnerReferences)
	}
	restore.Spec.Destination.NewCluster.Temporary = false
	if cluster := newCluster(restore, spec); len(cluster.OwnerReferences) != 0 {
		t.Errorf("another one has owners: %+v", cluster.OwnerReferences)
	}
}

func TestATemporaryClusterMakesNoSecretsOfDeclaredRoles(t *testing.T) {
	header := &backup.Header{Cluster: backup.Cluster{Secrets: []backup.Secret{
		{Purpose: backup.SecretApplication, Name: "shop-app"}, {Purpose: backup.SecretRole, Name: "reporting"},
	}}}
	for temporary, want := range map[bool]string{true: "copy-app", false: "copy-app reporting"} {
		names, _ := provenance{trusted: true}.secretsOf(header, restoreInto(v1alpha1.NewCluster{Name: "copy", Temporary: temporary}), &v1alpha1.PostgresClusterSpec{})
		if got := strings.Join(names, " "); got != want {
			t.Errorf("temporary %t: %s, not %s", temporary, got, want)
		}
	}
}

func TestACopyOfAClusterThatWasAStandbyFollowsNobody(t *testing.T) {
	recorded := &v1alpha1.PostgresClusterSpec{Version: 17, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")}, Standby: &v1alpha1.Standby{
		Source: v1alpha1.StandbySource{Repository: v1alpha1.StandbyRepository{Name: "there"}}, Database: "orders", Owner: "clerk", Promote: v1alpha1.PromoteImmediately,
	}}
	object, err := json.Marshal(recorded)
	if err != nil {
		t.Fatal(err)
	}
	restore := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "back"}, Spec: v1alpha1.RestoreSpec{Destination: v1alpha1.RestoreDestination{NewCluster: &v1alpha1.NewCluster{Name: "copy"}}}}
	for _, trusted := range []bool{true, false} {
		spec, _, err := newSpec(&backup.Header{PGMajor: 17, Cluster: backup.Cluster{Object: object}}, restore, "", provenance{trusted: trusted})
		if err != nil {
			t.Fatal(err)
		}
		if from := spec.Bootstrap.Restore; spec.Standby != nil || from.Database != "orders" || from.Owner != "clerk" {
			t.Errorf("trusted %t: %+v, %+v", trusted, spec.Standby, from)
		}
	}
}
