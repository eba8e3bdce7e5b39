package restore

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/pkg/repostore/location"
)

// provenance says what to make of the spec that a backup has recorded. Whoever can write to a bucket that is not encrypted can
// write any spec there: it is data, and never says which code runs, which Secrets are read, or where pods may run.
type provenance struct {
	// trusted: only who has the keys of the repository could write it.
	trusted bool
	// live is the spec of the cluster that was backed up, if that still exists. What is the same there is not the bucket's word.
	live *v1alpha1.PostgresClusterSpec
}

// provenance of what this Restore reads.
func (o *observed) provenance() provenance {
	p := provenance{trusted: o.repository != nil && location.KeysSecretName(o.repository) != ""}
	if o.source != nil {
		p.live = &o.source.Spec
	}
	return p
}

// admit returns of a recorded spec the fields that may come from a bucket, and names those that are dropped. A field that is
// not listed here is dropped.
func (p provenance) admit(spec *v1alpha1.PostgresClusterSpec) (*v1alpha1.PostgresClusterSpec, []string) {
	if p.trusted {
		return spec, nil
	}
	live := p.live
	if live == nil {
		live = &v1alpha1.PostgresClusterSpec{}
	}
	admitted := &v1alpha1.PostgresClusterSpec{
		Version: spec.Version, Instances: spec.Instances, Synchronous: spec.Synchronous, MaxLagOnFailover: spec.MaxLagOnFailover,
		StopTimeoutSeconds: spec.StopTimeoutSeconds,
		MaintenanceWindow:  spec.MaintenanceWindow, Updates: spec.Updates, Storage: spec.Storage, Resources: spec.Resources, Databases: spec.Databases,
		Bootstrap: spec.Bootstrap, SuperuserAccess: spec.SuperuserAccess, Archive: spec.Archive, DeletionPolicy: spec.DeletionPolicy,
		Scheduling: v1alpha1.Scheduling{Spread: spec.Scheduling.Spread},
	}
	admitted.PostgreSQL.HBA, admitted.PostgreSQL.Ident = spec.PostgreSQL.HBA, spec.PostgreSQL.Ident
	admitted.Failover = spec.Failover
	d := &dropping{}
	if d.drops("spec.image", spec.Image, live.Image) && live.Version == spec.Version {
		admitted.Image = live.Image
	} else if spec.Image == live.Image {
		admitted.Image = spec.Image
	}
	keep(d, "spec.postgresql.log", &admitted.PostgreSQL.Log, spec.PostgreSQL.Log, live.PostgreSQL.Log)
	keep(d, "spec.postgresql.extensionImages", &admitted.PostgreSQL.ExtensionImages, spec.PostgreSQL.ExtensionImages, live.PostgreSQL.ExtensionImages)
	if !reflect.DeepEqual(spec.PostgreSQL.HBA, live.PostgreSQL.HBA) { // the rules say which server gets the password
		live = live.DeepCopy()
		live.PostgreSQL.LDAPPasswordSecret = nil
	}
	keep(d, "spec.postgresql.ldapPasswordSecret", &admitted.PostgreSQL.LDAPPasswordSecret, spec.PostgreSQL.LDAPPasswordSecret, live.PostgreSQL.LDAPPasswordSecret)
	keep(d, "spec.imagePullSecrets", &admitted.ImagePullSecrets, spec.ImagePullSecrets, live.ImagePullSecrets)
	keep(d, "spec.scheduling.nodeSelector", &admitted.Scheduling.NodeSelector, spec.Scheduling.NodeSelector, live.Scheduling.NodeSelector)
	keep(d, "spec.scheduling.nodeAffinity", &admitted.Scheduling.NodeAffinity, spec.Scheduling.NodeAffinity, live.Scheduling.NodeAffinity)
	keep(d, "spec.scheduling.tolerations", &admitted.Scheduling.Tolerations, spec.Scheduling.Tolerations, live.Scheduling.Tolerations)
	keep(d, "spec.scheduling.priorityClassName", &admitted.Scheduling.PriorityClassName, spec.Scheduling.PriorityClassName, live.Scheduling.PriorityClassName)
	keep(d, "spec.scheduling.topologySpreadConstraints", &admitted.Scheduling.TopologySpreadConstraints,
		spec.Scheduling.TopologySpreadConstraints, live.Scheduling.TopologySpreadConstraints)
	keep(d, "spec.pods", &admitted.Pods, spec.Pods, live.Pods)
	keep(d, "spec.runAs", &admitted.RunAs, spec.RunAs, live.RunAs)
	keep(d, "spec.networkPolicy", &admitted.NetworkPolicy, spec.NetworkPolicy, live.NetworkPolicy)
	keep(d, "spec.services", &admitted.Services, spec.Services, live.Services)
	keep(d, "spec.monitoring", &admitted.Monitoring, spec.Monitoring, live.Monitoring)
	keep(d, "spec.tls", &admitted.TLS, spec.TLS, live.TLS)
	admitted.Roles = d.roles(spec.Roles, live.Roles)
	admitted.PostgreSQL.Parameters = d.parameters(spec.PostgreSQL.Parameters, live.PostgreSQL.Parameters)
	return admitted, d.names
}

// dropping collects the fields that are dropped.
type dropping struct{ names []string }

// drops says whether a field is dropped: it is set, and not as the live cluster has it.
func (d *dropping) drops(name string, recorded, live any) bool {
	if reflect.ValueOf(recorded).IsZero() || reflect.DeepEqual(recorded, live) {
		return false
	}
	d.names = append(d.names, name)
	return true
}

func keep[T any](d *dropping, name string, into *T, recorded, live T) {
	if !d.drops(name, recorded, live) {
		*into = recorded
	}
}

// roles keeps the roles, and drops the Secrets that they name and their parameters.
func (d *dropping) roles(recorded, live []v1alpha1.Role) []v1alpha1.Role {
	roles := slices.Clone(recorded)
	for i := range roles {
		role, same := &roles[i], v1alpha1.Role{}
		if at := slices.IndexFunc(live, func(r v1alpha1.Role) bool { return r.Name == role.Name }); at >= 0 {
			same = live[at]
		}
		if d.drops(fmt.Sprintf("spec.roles[%s].passwordSecret", role.Name), role.PasswordSecret, same.PasswordSecret) {
			role.PasswordSecret = nil
		}
		if d.drops(fmt.Sprintf("spec.roles[%s].certificateSecret", role.Name), role.CertificateSecret, same.CertificateSecret) {
			role.CertificateSecret = nil
		}
		if d.drops(fmt.Sprintf("spec.roles[%s].parameters", role.Name), role.Parameters, same.Parameters) { // they can name libraries
			role.Parameters = nil
		}
	}
	return roles
}

// parameters keeps those that load no library and run no command.
func (d *dropping) parameters(recorded, live map[string]v1alpha1.ParameterValue) map[string]v1alpha1.ParameterValue {
	kept := maps.Clone(recorded)
	for _, name := range slices.Sorted(maps.Keys(recorded)) {
		if postgres.RunsCode(name) && d.drops("spec.postgresql.parameters."+name, recorded[name], live[name]) {
			delete(kept, name)
		}
	}
	return kept
}

// dropRefused drops the parameters that the API server refuses today, and names them: a backup from before is restored without them.
func dropRefused(spec *v1alpha1.PostgresClusterSpec) (dropped []string) {
	kept := maps.Clone(spec.PostgreSQL.Parameters)
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		_, isFixed := postgres.Fixed(name)
		if isFixed || postgres.Dangerous(name, string(kept[name]), spec.Synchronous != nil) {
			dropped = append(dropped, "spec.postgresql.parameters."+name)
			delete(kept, name)
		}
	}
	spec.PostgreSQL.Parameters = kept
	return dropped
}
