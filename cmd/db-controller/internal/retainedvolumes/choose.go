package retainedvolumes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/component/secret"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

// set of volumes of one deleted cluster, and what is asked of them.
type set struct {
	cluster  string
	version  int
	wanted   int // instances
	person   string
	wal      bool // the cluster is to have WAL volumes
	identity types.UID
	// record that the latest deletion has left on the volumes; nil: there is none.
	record  *volume.Record
	target  string // the instance that is to begin
	volumes []*volumeOf
}

// volumeOf an instance.
type volumeOf struct {
	observed.Volume
	instance string
	now      time.Time
	result   *agentapi.VolumeInspection
	failed   string // why its Job has found nothing
}

// choose says which volumes are looked at and who is to begin, or why none is. It is pure.
func choose(o *observed.Cluster) (*set, string) {
	spec := &o.Cluster.Spec
	s := &set{cluster: o.Cluster.Name, version: int(spec.Version), wanted: o.Wanted(), person: spec.Bootstrap.Volumes.Instance}
	for i := range o.Volumes {
		s.volumes = append(s.volumes, looked(&volumeOf{Volume: o.Volumes[i], instance: o.Names.Instance(o.Volumes[i].Ordinal), now: o.Now}))
	}
	s.wal = spec.Storage.WAL != nil
	for _, look := range []func() string{s.claimsOfOne, s.findTarget, s.targetFits, s.walFits} {
		if why := look(); why != "" {
			return nil, why
		}
	}
	if database, owner := secret.Application(o.Cluster); s.record != nil && (database != s.record.Database || owner != s.record.Owner) {
		return nil, fmt.Sprintf("The application's database of the deleted cluster was %s, and its role %s. %s", s.record.Database, s.record.Owner,
			again("spec.bootstrap.volumes.database: %s and owner: %s", s.record.Database, s.record.Owner))
	}
	return s, ""
}

// again is what to do where a field is wrong that can't be changed.
func again(format string, values ...any) string {
	return "Delete this PostgresCluster, which leaves the volumes as they are, and create it again with " + fmt.Sprintf(format, values...) + "."
}

// looked at: what its Job has said, if anything.
func looked(v *volumeOf) *volumeOf {
	state, result := v.Inspection, &agentapi.VolumeInspection{}
	switch {
	case state.Taken():
		v.failed = flow.Sentence(state.Message)
	case state.Ended() && state.Failed:
		_, message := state.FailureReason()
		v.failed = flow.Sentence(message)
	case (state.Ended() || state.Said()) && state.Result(result):
		v.result = bounded(result)
	}
	return v
}

// bounded cuts texts of a volume that is not trusted.
func bounded(found *agentapi.VolumeInspection) *agentapi.VolumeInspection {
	const name, text = 64, 300
	found.DataGeneration, found.SystemIdentifier = observed.Bounded(found.DataGeneration, name), observed.Bounded(found.SystemIdentifier, name)
	found.State, found.Unusable = observed.Bounded(found.State, name), observed.Bounded(found.Unusable, text)
	return found
}

// claimsOfOne: all claims are of one deleted cluster, but for those that aren't needed.
func (s *set) claimsOfOne() string {
	switch named := s.of(s.person); {
	case len(s.volumes) == 0:
		return fmt.Sprintf("No PostgresCluster %s has left a volume behind: there is no PersistentVolumeClaim data-%[1]s-0 or with a higher number. "+
			"%s", s.cluster, again("another spec.bootstrap, or restore a backup"))
	case s.person != "" && named == nil:
		return fmt.Sprintf("PersistentVolumeClaim data-%s, of the instance that spec.bootstrap.volumes.instance names, doesn't exist. %s",
			s.person, again("the name of an instance that has a volume, or without instance"))
	case named != nil:
		s.identity = named.identity()
	}
	var others []string
	for _, v := range s.volumes {
		needed := v.Ordinal < s.wanted || v.instance == s.person
		s.identity = cmp.Or(s.identity, v.identity())
		switch identity := v.identity(); {
		case identity == "" && needed:
			return fmt.Sprintf("PersistentVolumeClaim %s has no label %s, so no PostgresCluster has left it behind. Delete it if it isn't needed, "+
				"or restore that label if somebody has removed it.", v.Claim.Name, component.LabelClusterUID)
		case identity != "" && identity != s.identity && (needed || s.person == ""):
			others = append(others, fmt.Sprintf("%s of %s", v.Claim.Name, identity))
		case identity == s.identity && !v.Claim.DeletionTimestamp.IsZero():
			return fmt.Sprintf("PersistentVolumeClaim %s is being deleted. The cluster begins with the other volumes when it no longer exists.", v.Claim.Name)
		}
	}
	if len(others) > 0 {
		return fmt.Sprintf("The volumes belong to several deleted clusters, which differ in the UID in the label %s of their PersistentVolumeClaims: %s, and the rest of %s. "+
			"Delete the claims whose data isn't needed.", component.LabelClusterUID, strings.Join(others, ", "), s.identity)
	}
	s.volumes = slices.DeleteFunc(s.volumes, func(v *volumeOf) bool { return v.identity() != s.identity })
	return ""
}

// identity of the cluster that has left a volume behind; empty: it doesn't say.
func (v *volumeOf) identity() types.UID { return types.UID(v.Claim.Labels[component.LabelClusterUID]) }

// findTarget reads the record of the latest deletion.
func (s *set) findTarget() string {
	for _, v := range s.volumes {
		if found := volume.RecordOn(v.Claim); found != nil && (s.record == nil || s.record.DeletedAt.Before(&found.DeletedAt)) {
			s.record = found
		}
	}
	switch {
	case s.person != "":
		s.target = s.person
	case s.record != nil:
		s.target = s.record.Primary
	default:
		return fmt.Sprintf("The PersistentVolumeClaims don't say which instance was primary last: their annotation %s is missing or can't be read. "+
			"If you know it, name it. %s", component.AnnotationRetainedData, again("spec.bootstrap.volumes.instance: %s-0, for example", s.cluster))
	}
	return ""
}

// targetFits: the volume that the cluster is to begin with exists and is one of its own.
func (s *set) targetFits() string {
	target := s.of(s.target)
	switch {
	case target == nil:
		return fmt.Sprintf("PersistentVolumeClaim data-%s doesn't exist, the volume of the instance that was primary last. Only that is known to have every commit. "+
			"If it is lost for good, choose the instance to continue with, and lose what only %[1]s had. %s",
			s.target, again("spec.bootstrap.volumes.instance: %s", s.example()))
	case target.Ordinal >= s.wanted:
		return fmt.Sprintf("The cluster must start from %s, but spec.instances is only %d. Set spec.instances to at least %d; it can be reduced "+
			"when the cluster runs.", s.target, s.wanted, target.Ordinal+1)
	}
	return ""
}

// walFits: there is a WAL volume for each volume that is used, or for none. The instances of a cluster are all alike.
func (s *set) walFits() string {
	for _, v := range s.volumes {
		if v.Ordinal >= s.wanted {
			continue
		}
		switch name := protocol.WALClaimName(v.instance); {
		case s.wal && v.WAL == nil:
			return fmt.Sprintf("PersistentVolumeClaim %s, for the WAL of %s, doesn't exist. If the deleted cluster had no WAL volumes, the new one can't have any: %s "+
				"If that claim is lost, so is what only %[2]s had, and the volume of its data is of no use: delete PersistentVolumeClaim %[4]s, unless it is the only one.",
				name, v.instance, again("spec.storage.wal removed"), v.Claim.Name)
		case !s.wal && v.WAL != nil && types.UID(v.WAL.Labels[component.LabelClusterUID]) == s.identity:
			return fmt.Sprintf("The deleted cluster had WAL volumes, such as PersistentVolumeClaim %s. %s", name, again("spec.storage.wal"))
		case s.wal && types.UID(v.WAL.Labels[component.LabelClusterUID]) != s.identity:
			return fmt.Sprintf("PersistentVolumeClaim %s is not of the cluster that has left PersistentVolumeClaim %s behind, so its WAL is not that of this data. Bring the right claim back.", name, v.Claim.Name)
		case s.wal && !v.WAL.DeletionTimestamp.IsZero():
			return fmt.Sprintf("PersistentVolumeClaim %s is being deleted, and without it the data of %s can't be started.", name, v.instance)
		}
	}
	return ""
}

// example is an instance that has a volume.
func (s *set) example() string { return s.volumes[0].instance }

// of an instance; nil: it has no volume here.
func (s *set) of(instance string) *volumeOf {
	for _, v := range s.volumes {
		if v.instance == instance {
			return v
		}
	}
	return nil
}

// used says who uses a volume; empty: nobody.
func (s *set) used() string {
	for _, v := range s.volumes {
		if v.UsedBy != "" {
			return fmt.Sprintf("Pod %s uses PersistentVolumeClaim %s. The cluster begins with it when that pod has ended; delete it if it is no longer needed.", v.UsedBy, v.Claim.Name)
		}
	}
	return ""
}

// waits says what is still looked at; empty: every Job has ended.
func (s *set) waits() string {
	var names []string
	for _, v := range s.volumes {
		if v.result != nil || v.failed != "" {
			continue
		}
		if why := trouble(v); why != "" {
			return fmt.Sprintf("The volume of %s can't be looked at yet: %s", v.instance, why)
		}
		names = append(names, v.instance)
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("Jobs look at the volumes of %s.", strings.Join(names, ", "))
}
