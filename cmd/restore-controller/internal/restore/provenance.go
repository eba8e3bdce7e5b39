package restore

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

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
	// accept are the fields that a person lets the bucket decide.
	accept []v1alpha1.RecordedField
}

const (
	// maxShown bounds how many fields status names, and maxShownName how long their names are: whoever writes to a bucket could name more
	// than an object of Kubernetes holds.
	maxShown, maxShownName = 64, 160
	// maxAccepted bounds what status shows of one field.
	maxAccepted = 4096
)

// admission is what became of a record.
type admission struct {
	dropped  []string // fields that are not taken
	accepted []v1alpha1.AcceptedField
}

// shown are the names of the dropped fields for status.
func (a admission) shown() []string {
	var names []string
	for _, name := range a.dropped[:min(len(a.dropped), maxShown)] {
		names = append(names, strings.ToValidUTF8(name[:min(len(name), maxShownName)], ""))
	}
	if more := len(a.dropped) - maxShown; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return names
}

// like says that no other values are accepted than those of a plan.
func (a admission) like(plan []v1alpha1.AcceptedField) bool {
	return !slices.ContainsFunc(a.accepted, func(f v1alpha1.AcceptedField) bool { return !slices.Contains(plan, f) })
}

// provenance of what this Restore reads.
func (o *observed) provenance() provenance {
	p := provenance{trusted: o.repository != nil && location.KeysSecretName(o.repository) != ""}
	if o.source != nil {
		p.live = &o.source.Spec
	}
	if into := o.restore.Spec.Destination.NewCluster; into != nil {
		p.accept = into.AcceptRecorded
	}
	return p
}

// admit returns of a recorded spec the fields that may come from a bucket, and names those that are dropped, or taken because a person
// accepts them. A field that is not listed here is dropped.
func (p provenance) admit(spec *v1alpha1.PostgresClusterSpec) (*v1alpha1.PostgresClusterSpec, admission, error) {
	if p.trusted {
		return spec, admission{}, nil
	}
	live := p.live
	if live == nil {
		live = &v1alpha1.PostgresClusterSpec{}
	}
	admitted := &v1alpha1.PostgresClusterSpec{
		Version: spec.Version, Instances: spec.Instances, Synchronous: spec.Synchronous, MaxLagOnFailover: spec.MaxLagOnFailover,
		StopTimeoutSeconds: spec.StopTimeoutSeconds,
		MaintenanceWindow:  spec.MaintenanceWindow, Updates: spec.Updates, Storage: spec.Storage, Resources: spec.Resources, Autoscale: spec.Autoscale, DeepChecks: spec.DeepChecks, Tuning: spec.Tuning, Databases: spec.Databases,
		Bootstrap: spec.Bootstrap, Standby: spec.Standby, SuperuserAccess: spec.SuperuserAccess, Archive: spec.Archive, DeletionPolicy: spec.DeletionPolicy,
		Scheduling: v1alpha1.Scheduling{Spread: spec.Scheduling.Spread},
	}
	admitted.PostgreSQL.HBA, admitted.PostgreSQL.Ident = spec.PostgreSQL.HBA, spec.PostgreSQL.Ident
	admitted.Failover = spec.Failover
	d := &dropping{accept: p.accept}
	if d.drops("spec.image", "", spec.Image, live.Image) && live.Version == spec.Version {
		admitted.Image = live.Image
	} else if spec.Image == live.Image {
		admitted.Image = spec.Image
	}
	keep(d, v1alpha1.RecordedLog, &admitted.PostgreSQL.Log, spec.PostgreSQL.Log, live.PostgreSQL.Log)
	keep(d, "spec.postgresql.extensionImages", &admitted.PostgreSQL.ExtensionImages, spec.PostgreSQL.ExtensionImages, live.PostgreSQL.ExtensionImages)
	if !reflect.DeepEqual(spec.PostgreSQL.HBA, live.PostgreSQL.HBA) { // the rules say which server gets the password
		live = live.DeepCopy()
		live.PostgreSQL.LDAPPasswordSecret = nil
	}
	keep(d, "spec.postgresql.ldapPasswordSecret", &admitted.PostgreSQL.LDAPPasswordSecret, spec.PostgreSQL.LDAPPasswordSecret, live.PostgreSQL.LDAPPasswordSecret)
	keep(d, "spec.postgresql.ldapCA", &admitted.PostgreSQL.LDAPCA, spec.PostgreSQL.LDAPCA, live.PostgreSQL.LDAPCA)
	keep(d, v1alpha1.RecordedImagePullSecrets, &admitted.ImagePullSecrets, spec.ImagePullSecrets, live.ImagePullSecrets)
	keep(d, v1alpha1.RecordedNodeSelector, &admitted.Scheduling.NodeSelector, spec.Scheduling.NodeSelector, live.Scheduling.NodeSelector)
	keep(d, v1alpha1.RecordedNodeAffinity, &admitted.Scheduling.NodeAffinity, spec.Scheduling.NodeAffinity, live.Scheduling.NodeAffinity)
	keep(d, v1alpha1.RecordedTolerations, &admitted.Scheduling.Tolerations, spec.Scheduling.Tolerations, live.Scheduling.Tolerations)
	keep(d, v1alpha1.RecordedPriorityClassName, &admitted.Scheduling.PriorityClassName, spec.Scheduling.PriorityClassName, live.Scheduling.PriorityClassName)
	keep(d, v1alpha1.RecordedTopologySpread, &admitted.Scheduling.TopologySpreadConstraints,
		spec.Scheduling.TopologySpreadConstraints, live.Scheduling.TopologySpreadConstraints)
	admitted.Pods = d.pods(spec.Pods, live.Pods)
	keep(d, v1alpha1.RecordedRunAs, &admitted.RunAs, spec.RunAs, live.RunAs)
	keep(d, v1alpha1.RecordedNetworkPolicy, &admitted.NetworkPolicy, spec.NetworkPolicy, live.NetworkPolicy)
	keep(d, v1alpha1.RecordedServices, &admitted.Services, spec.Services, live.Services)
	keep(d, v1alpha1.RecordedMonitoring, &admitted.Monitoring, spec.Monitoring, live.Monitoring)
	keep(d, v1alpha1.RecordedTLS, &admitted.TLS, spec.TLS, live.TLS)
	admitted.Roles = d.roles(spec.Roles, live.Roles)
	admitted.PostgreSQL.Parameters = d.parameters(spec.PostgreSQL.Parameters, live.PostgreSQL.Parameters)
	return admitted, d.admission, d.err
}

// dropping collects the fields that are dropped, and those that a person accepts.
type dropping struct {
	accept []v1alpha1.RecordedField
	admission
	err error
}

// drops says whether a field is dropped: it is set, not as the live cluster has it, and nobody accepts it.
func (d *dropping) drops(field v1alpha1.RecordedField, of string, recorded, live any) bool {
	if reflect.ValueOf(recorded).IsZero() || reflect.DeepEqual(recorded, live) {
		return false
	}
	name := string(field)
	if of != "" {
		name = strings.Replace(name, "spec.roles.", "spec.roles["+of+"].", 1)
	}
	if !slices.Contains(d.accept, field) {
		d.dropped = append(d.dropped, name)
		return true
	}
	value, err := json.Marshal(recorded)
	if len(d.accepted) == maxShown {
		err = fmt.Errorf("the backup has recorded more than %d fields that spec.destination.newCluster.acceptRecorded names: name fewer", maxShown)
	} else if err == nil && len(name) > maxShownName {
		err = fmt.Errorf("the backup has recorded %s of a role whose name has %d bytes, which no role has: remove it from "+
			"spec.destination.newCluster.acceptRecorded", field, len(of))
	} else if err == nil && len(value) > maxAccepted {
		err = fmt.Errorf("%s, as the backup has recorded it, takes %d bytes, and status.plan shows at most %d: remove it from "+
			"spec.destination.newCluster.acceptRecorded, and set it in the new PostgresCluster", name, len(value), maxAccepted)
	}
	if err != nil && d.err == nil {
		d.err = err
	}
	d.accepted = append(d.accepted, v1alpha1.AcceptedField{Field: name, Value: string(value)})
	return false
}

func keep[T any](d *dropping, field v1alpha1.RecordedField, into *T, recorded, live T) {
	if !d.drops(field, "", recorded, live) {
		*into = recorded
	}
}

// pods keeps all of them or nothing. Of pods that a person accepts, the containers are dropped, as they name images.
func (d *dropping) pods(recorded, live v1alpha1.Pods) (pods v1alpha1.Pods) {
	if !reflect.DeepEqual(recorded, live) && slices.Contains(d.accept, v1alpha1.RecordedPods) {
		d.drops("spec.pods.containers", "", recorded.Containers, nil)
		d.drops("spec.pods.initContainers", "", recorded.InitContainers, nil)
		recorded.Containers, recorded.InitContainers = nil, nil
	}
	keep(d, v1alpha1.RecordedPods, &pods, recorded, live)
	return pods
}

// roles keeps the roles, and drops the Secrets that they name and their parameters.
func (d *dropping) roles(recorded, live []v1alpha1.Role) []v1alpha1.Role {
	roles := slices.Clone(recorded)
	for i := range roles {
		role, same := &roles[i], v1alpha1.Role{}
		if at := slices.IndexFunc(live, func(r v1alpha1.Role) bool { return r.Name == role.Name }); at >= 0 {
			same = live[at]
		}
		if d.drops(v1alpha1.RecordedRolePasswords, role.Name, role.PasswordSecret, same.PasswordSecret) {
			role.PasswordSecret = nil
		}
		if d.drops(v1alpha1.RecordedRoleCertificates, role.Name, role.CertificateSecret, same.CertificateSecret) {
			role.CertificateSecret = nil
		}
		if d.drops(v1alpha1.RecordedRoleParameters, role.Name, role.Parameters, same.Parameters) { // they can name libraries
			role.Parameters = nil
		}
	}
	return roles
}

// parameters keeps those that load no library and run no command.
func (d *dropping) parameters(recorded, live map[string]v1alpha1.ParameterValue) map[string]v1alpha1.ParameterValue {
	kept := maps.Clone(recorded)
	for _, name := range slices.Sorted(maps.Keys(recorded)) {
		if postgres.RunsCode(name) && d.drops(v1alpha1.RecordedParameter(name), "", recorded[name], live[name]) {
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
