package restore

import (
	"reflect"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/manager"
)

// planted is a spec as anybody may write it who can write to a bucket.
func planted() v1alpha1.PostgresClusterSpec {
	spec := shopSpec()
	spec.Image = "evil:17"
	spec.PostgreSQL.HBA = []v1alpha1.HBARule{"hostssl all all all ldap ldapserver=evil ldapbasedn=dc=evil ldapbinddn=cn=evil"}
	spec.PostgreSQL.LDAPPasswordSecret = &v1alpha1.PasswordSecret{Name: "other"}
	spec.PostgreSQL.LDAPCA = &v1alpha1.CABundle{Secret: &v1alpha1.BundleKey{Name: "other", Key: "ca.crt"}}
	spec.PostgreSQL.ExtensionImages = []v1alpha1.ExtensionImage{{Name: "evil", Image: "evil:18"}}
	spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{
		"work_mem": "8MB", "shared_preload_libraries": "evil", "session_preload_libraries": "evil", "jit_provider": "evil",
	}
	spec.Roles = []v1alpha1.Role{{
		Name: "web", PasswordSecret: &v1alpha1.PasswordSecret{Name: "other"}, CertificateSecret: &v1alpha1.CertificateSecret{Name: "more"},
		Parameters: map[v1alpha1.RoleParameter]v1alpha1.ParameterValue{"session_preload_libraries": "evil"},
	}}
	spec.ImagePullSecrets = []v1alpha1.LocalReference{{Name: "evil"}}
	spec.Pods.Containers = []v1alpha1.PodContainer{{Name: "evil", Image: "evil:1"}}
	spec.Pods.Env = []v1alpha1.EnvVar{{Name: "EVIL", Value: "true"}}
	spec.RunAs = &v1alpha1.RunAs{UserID: ptr.To[int64](65532)}
	spec.NetworkPolicy = &v1alpha1.NetworkPolicy{Clients: []v1alpha1.NetworkPeer{{CIDR: "0.0.0.0/0"}}}
	spec.Services.RW.Type = "LoadBalancer"
	spec.TLS.DNSNames = []v1alpha1.DNSName{"bank.example"}
	spec.Monitoring = &v1alpha1.Monitoring{PodMonitor: &v1alpha1.PodMonitor{}}
	spec.Scheduling = v1alpha1.Scheduling{
		NodeSelector: map[string]string{"evil": "true"}, TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{TopologyKey: "evil"}},
		NodeAffinity: &corev1.NodeAffinity{}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		PriorityClassName: "system-node-critical", Spread: v1alpha1.SpreadRequired,
	}
	return spec
}

// from is the new cluster's spec and what of the record is dropped.
func from(t *testing.T, spec v1alpha1.PostgresClusterSpec, wanted v1alpha1.NewCluster, by provenance) (*v1alpha1.PostgresClusterSpec, []string) {
	t.Helper()
	header := &backup.Header{PGMajor: 17, Cluster: backup.Cluster{Object: recorded(t, spec, true), Image: "evil:17"}}
	got, admitted, err := newSpec(header, restoreInto(wanted), "repo", by)
	if err != nil {
		t.Fatal(err)
	}
	return got, admitted.dropped
}

func TestABucketIsNoSourceOfCodeSecretsOrNodes(t *testing.T) {
	spec, dropped := from(t, planted(), v1alpha1.NewCluster{Name: "copy"}, provenance{})
	if spec.Image != "" || !reflect.DeepEqual(spec.Scheduling, v1alpha1.Scheduling{Spread: v1alpha1.SpreadRequired}) {
		t.Errorf("image %q, scheduling %+v", spec.Image, spec.Scheduling)
	}
	if p := spec.PostgreSQL.Parameters; len(p) != 1 || p["work_mem"] != "8MB" {
		t.Errorf("parameters %v", p)
	}
	if r := spec.Roles; len(r) != 1 || r[0].Name != "web" || r[0].PasswordSecret != nil || r[0].CertificateSecret != nil || r[0].Parameters != nil {
		t.Errorf("roles %+v", r)
	}
	want := []string{
		"spec.image", "spec.postgresql.extensionImages", "spec.postgresql.ldapPasswordSecret", "spec.postgresql.ldapCA", "spec.imagePullSecrets", "spec.scheduling.nodeSelector", "spec.scheduling.nodeAffinity", "spec.scheduling.tolerations",
		"spec.scheduling.priorityClassName", "spec.scheduling.topologySpreadConstraints", "spec.pods", "spec.runAs",
		"spec.networkPolicy", "spec.services", "spec.monitoring", "spec.tls",
		"spec.roles[web].passwordSecret", "spec.roles[web].certificateSecret", "spec.roles[web].parameters", "spec.postgresql.parameters.jit_provider",
		"spec.postgresql.parameters.session_preload_libraries", "spec.postgresql.parameters.shared_preload_libraries",
	}
	if !reflect.DeepEqual(dropped, want) {
		t.Errorf("dropped %q", dropped)
	}
	hostile := &backup.Header{Cluster: backup.Cluster{Secrets: []backup.Secret{{Purpose: backup.SecretRole, Name: "evil"}}}}
	if names, dropped := (provenance{}).secretsOf(hostile, restoreInto(v1alpha1.NewCluster{Name: "copy"}), spec); names != nil || len(dropped) != 1 {
		t.Errorf("Secrets %q are created, and %q dropped", names, dropped)
	}
	r := &Reconciler{Dependencies: manager.Dependencies{}}
	if image, err := r.imageFor(&backup.Header{PGMajor: 17, Cluster: backup.Cluster{Image: "evil:17"}}, spec, provenance{}); err == nil {
		t.Errorf("image %s is taken from the bucket", image)
	}
}

func TestWhatTheLiveClusterHasIsKept(t *testing.T) {
	live := planted()
	spec, dropped := from(t, planted(), v1alpha1.NewCluster{Name: "copy"}, provenance{live: &live})
	if len(dropped) > 0 || spec.Image != "evil:17" || len(spec.PostgreSQL.Parameters) != 4 || spec.Roles[0].PasswordSecret == nil || spec.PostgreSQL.LDAPPasswordSecret == nil || spec.PostgreSQL.LDAPCA == nil {
		t.Errorf("dropped %q of what the cluster has itself: %+v", dropped, spec)
	}
	live.PostgreSQL.HBA = nil
	if spec, _ = from(t, planted(), v1alpha1.NewCluster{Name: "copy"}, provenance{live: &live}); spec.PostgreSQL.LDAPPasswordSecret != nil {
		t.Error("a directory server that only the bucket names gets the password of the live cluster")
	}
	live.Image = "own:17"
	if spec, _ = from(t, planted(), v1alpha1.NewCluster{Name: "copy"}, provenance{live: &live}); spec.Image != "own:17" {
		t.Errorf("image %s instead of the live cluster's", spec.Image)
	}
}

func TestWhatAPersonWritesIntoTheRestoreCounts(t *testing.T) {
	spec, _ := from(t, planted(), v1alpha1.NewCluster{
		Name: "copy", Image: "mine:17", RunAs: &v1alpha1.RunAs{FromNamespace: true}, Parameters: map[string]v1alpha1.ParameterValue{"shared_preload_libraries": "pg_stat_statements"},
	}, provenance{})
	if spec.Image != "mine:17" || !spec.RunAs.FromNamespace || spec.PostgreSQL.Parameters["shared_preload_libraries"] != "pg_stat_statements" {
		t.Errorf("%+v", spec)
	}
}

func TestEveryFieldOfARecordIsLookedAt(t *testing.T) {
	admitted := []string{
		"Version", "Image", "Instances", "Synchronous", "MaxLagOnFailover", "Failover", "Switchover", "Reinit", "Repair", "Hibernate", "MaintenanceWindow", "Scheduling",
		"Storage", "Resources", "PostgreSQL", "Roles", "Databases", "Bootstrap", "SuperuserAccess", "Archive", "DeletionPolicy",
		"ImagePullSecrets", "Services", "TLS", "Pods", "StopTimeoutSeconds", "RunAs", "NetworkPolicy", "ReplicationSlots", "Updates", "DelayedReplicas", "Monitoring", "Autoscale", "InheritedMetadata", "DeepChecks", "Tuning", "Standby",
	}
	spec := reflect.TypeFor[v1alpha1.PostgresClusterSpec]()
	if spec.NumField() != len(admitted) {
		t.Errorf("spec has %d fields: decide in admit whether the new one may come from a bucket", spec.NumField())
	}
	if postgres := reflect.TypeFor[v1alpha1.PostgreSQLSpec](); postgres.NumField() != 7 {
		t.Errorf("spec.postgresql has %d fields: decide in admit whether the new one may come from a bucket", postgres.NumField())
	}
	if scheduling := reflect.TypeFor[v1alpha1.Scheduling](); scheduling.NumField() != 6 {
		t.Errorf("spec.scheduling has %d fields: decide in admit whether the new one may come from a bucket", scheduling.NumField())
	}
}

func TestABackupFromBeforeIsRestoredWithoutTheParametersThatAreRefusedToday(t *testing.T) {
	recorded := shopSpec()
	recorded.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "8MB", "autovacuum": "off", "lc_messages": "de_DE", "ignore_system_indexes": "on"}
	spec, dropped := from(t, recorded, v1alpha1.NewCluster{Name: "copy"}, provenance{trusted: true})
	if p := spec.PostgreSQL.Parameters; len(p) != 1 || p["work_mem"] != "8MB" {
		t.Errorf("parameters %v", p)
	}
	want := []string{"spec.postgresql.parameters.autovacuum", "spec.postgresql.parameters.ignore_system_indexes", "spec.postgresql.parameters.lc_messages"}
	if !reflect.DeepEqual(dropped, want) {
		t.Errorf("dropped %q", dropped)
	}
	if text := notTaken(&v1alpha1.RestorePlan{Dropped: dropped}); strings.Contains(text, "neither encrypted nor signed") || !strings.Contains(text, want[2]) {
		t.Errorf("the condition says %q", text)
	}
	text := notTaken(&v1alpha1.RestorePlan{Dropped: append([]string{"spec.image", "spec.postgresql.parameters.jit_provider"}, want...)})
	if !strings.Contains(text, "are not used: spec.image, spec.postgresql.parameters.jit_provider. ") || !strings.Contains(text, "may set them so: "+strings.Join(want, ", ")) {
		t.Errorf("the condition says %q", text)
	}
}

// acceptable are all fields that a person can accept.
func acceptable() []v1alpha1.RecordedField {
	fields := []v1alpha1.RecordedField{
		v1alpha1.RecordedImagePullSecrets, v1alpha1.RecordedMonitoring, v1alpha1.RecordedNetworkPolicy, v1alpha1.RecordedPods, v1alpha1.RecordedLog,
		v1alpha1.RecordedRoleCertificates, v1alpha1.RecordedRoleParameters, v1alpha1.RecordedRolePasswords, v1alpha1.RecordedRunAs,
		v1alpha1.RecordedNodeAffinity, v1alpha1.RecordedNodeSelector, v1alpha1.RecordedPriorityClassName, v1alpha1.RecordedTolerations,
		v1alpha1.RecordedTopologySpread, v1alpha1.RecordedServices, v1alpha1.RecordedTLS,
	}
	for _, name := range []string{
		"dynamic_library_path", "extension_control_path", "jit_provider", "local_preload_libraries", "oauth_validator_libraries",
		"session_preload_libraries", "shared_preload_libraries",
	} {
		fields = append(fields, v1alpha1.RecordedParameter(name))
	}
	return fields
}

func TestAPersonAcceptsWhatABucketHasRecordedFieldByField(t *testing.T) {
	header := &backup.Header{PGMajor: 17, Cluster: backup.Cluster{Namespace: "prod", Name: "shop", Object: recorded(t, planted(), true)}}
	accepting := func(fields ...v1alpha1.RecordedField) (*v1alpha1.PostgresClusterSpec, admission) {
		t.Helper()
		spec, admitted, err := newSpec(header, restoreInto(v1alpha1.NewCluster{Name: "copy"}), "repo", provenance{accept: fields})
		if err != nil {
			t.Fatal(err)
		}
		return spec, admitted
	}
	spec, one := accepting(v1alpha1.RecordedTolerations, v1alpha1.RecordedRolePasswords)
	if len(spec.Scheduling.Tolerations) != 1 || spec.Scheduling.PriorityClassName != "" || spec.Roles[0].PasswordSecret == nil || spec.Roles[0].CertificateSecret != nil {
		t.Errorf("scheduling %+v, role %+v", spec.Scheduling, spec.Roles[0])
	}
	want := []v1alpha1.AcceptedField{
		{Field: "spec.scheduling.tolerations", Value: `[{"operator":"Exists"}]`}, {Field: "spec.roles[web].passwordSecret", Value: `{"name":"other"}`},
	}
	if !reflect.DeepEqual(one.accepted, want) {
		t.Errorf("accepted %+v", one.accepted)
	}
	spec, all := accepting(acceptable()...)
	if want := []string{"spec.image", "spec.postgresql.extensionImages", "spec.postgresql.ldapPasswordSecret", "spec.postgresql.ldapCA", "spec.pods.containers"}; !reflect.DeepEqual(all.dropped, want) {
		t.Errorf("dropped although all was accepted that can be: %q", all.dropped)
	}
	if spec.Image != "" || len(spec.Pods.Containers) > 0 || len(spec.Pods.Env) != 1 || spec.PostgreSQL.Parameters["shared_preload_libraries"] != "evil" {
		t.Errorf("%+v", spec)
	}
	if !one.like(all.accepted) || all.like(one.accepted) {
		t.Error("what was not in the plan is like it")
	}
	plan := &v1alpha1.RestorePlan{Dropped: one.shown(), Accepted: one.accepted}
	if text := notTaken(plan); !strings.Contains(text, "acceptRecorded names them: spec.scheduling.tolerations, spec.roles[web].passwordSecret.") {
		t.Errorf("the condition says %q", text)
	}
	if by := (taker{admission: one}).recordedBy(header); by == nil || by.Namespace != "prod" || by.Name != "shop" {
		t.Errorf("recorded by %+v", by)
	}
}

func TestARecordWithManyFieldsFitsIntoAStatus(t *testing.T) {
	spec := shopSpec()
	for i := range 20_000 {
		spec.Roles = append(spec.Roles, v1alpha1.Role{Name: strings.Repeat("r", 50) + strconv.Itoa(i), PasswordSecret: &v1alpha1.PasswordSecret{Name: "x"}})
	}
	header := &backup.Header{PGMajor: 17, Cluster: backup.Cluster{Object: recorded(t, spec, true)}}
	_, admitted, err := newSpec(header, restoreInto(v1alpha1.NewCluster{Name: "copy"}), "repo", provenance{})
	if err != nil {
		t.Fatal(err)
	}
	if shown := admitted.shown(); len(shown) != maxShown+1 || shown[maxShown] != "and 19937 more" {
		t.Errorf("status names %d fields, the last %q", len(shown), shown[len(shown)-1])
	}
	accept := provenance{accept: []v1alpha1.RecordedField{v1alpha1.RecordedRolePasswords, v1alpha1.RecordedNodeSelector}}
	if _, _, err = newSpec(header, restoreInto(v1alpha1.NewCluster{Name: "copy"}), "repo", accept); err == nil || !strings.Contains(err.Error(), "more than 64 fields") {
		t.Errorf("%v", err)
	}
	spec.Roles = []v1alpha1.Role{{Name: strings.Repeat("r", 1<<20), PasswordSecret: &v1alpha1.PasswordSecret{Name: "x"}}}
	header.Cluster.Object = recorded(t, spec, true)
	if _, _, err = newSpec(header, restoreInto(v1alpha1.NewCluster{Name: "copy"}), "repo", accept); err == nil || len(err.Error()) > 500 {
		t.Errorf("a role with an endless name: %.200v", err)
	}
	spec.Roles = nil
	spec.Scheduling.NodeSelector = map[string]string{"large": strings.Repeat("x", maxAccepted)}
	header.Cluster.Object = recorded(t, spec, true)
	if _, _, err = newSpec(header, restoreInto(v1alpha1.NewCluster{Name: "copy"}), "repo", accept); err == nil || !strings.Contains(err.Error(), "spec.scheduling.nodeSelector, as the backup has recorded it, takes") {
		t.Errorf("%v", err)
	}
}
