package retainedvolumes

import (
	"fmt"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// judge says with which volume the cluster begins, or why with none. It is pure. On each timeline one instance was primary, and the others have
// at most what it had. So who was primary on the latest timeline has every commit, and no volume may know of a later one than that with which
// the cluster begins. What isn't on any volume that is left, only the record knows.
func (s *set) judge() (*volumeOf, string) {
	target := s.of(s.target)
	for _, look := range []func(*volumeOf) string{s.readable, s.expected, s.latestData, s.complete} {
		if why := look(target); why != "" {
			return nil, why
		}
	}
	if s.person != "" {
		return target, ""
	}
	return target, s.ahead(target)
}

// readable: a server of spec.version can be started on it.
func (s *set) readable(target *volumeOf) string {
	switch found := target.result; {
	case target.failed != "":
		return fmt.Sprintf("The volume of %s can't be read: %s Fix the cause and delete Job %s-volume-%d, which is then created again.",
			target.instance, target.failed, s.cluster, target.Ordinal)
	case found.Unusable != "":
		return fmt.Sprintf("No server can be started on the volume of %s. %s %s", target.instance, found.Unusable, s.orAnother())
	case found.MajorVersion != s.version:
		return fmt.Sprintf("The volume of %s has data of PostgreSQL %d, and spec.version is %d. Set spec.version to %[2]d; an Upgrade takes the cluster to a later "+
			"version when it runs.", target.instance, found.MajorVersion, s.version)
	}
	return ""
}

// orAnother is what a person may decide.
func (s *set) orAnother() string {
	const loses = "commits that only this volume has are lost then."
	return fmt.Sprintf("If it can't be repaired, restore a backup, or continue with another instance; %s %s", loses, again("spec.bootstrap.volumes.instance: %s", s.other()))
}

// other is an instance that a person may name instead.
func (s *set) other() string {
	for _, v := range s.volumes {
		if v.instance != s.target && v.result != nil && v.result.Unusable == "" {
			return v.instance
		}
	}
	return s.example()
}

// expected: it is the data that the record speaks of, and that the other volumes are copies of.
func (s *set) expected(target *volumeOf) string {
	found := target.result
	if s.record != nil && s.record.DataGeneration == found.DataGeneration && s.record.SystemIdentifier != found.SystemIdentifier {
		return fmt.Sprintf("The volume of %s has the system identifier %s, but the deleted cluster had %s: it is the data of another database. "+
			"Bring the right volume back under this PersistentVolumeClaim.", target.instance, found.SystemIdentifier, s.record.SystemIdentifier)
	}
	for _, v := range s.volumes {
		other := v.result
		if other != nil && other.Unusable == "" && other.DataGeneration == found.DataGeneration && other.SystemIdentifier != found.SystemIdentifier {
			return fmt.Sprintf("The volumes belong to different databases: that of %s has the system identifier %s, that of %s has %s. "+
				"Delete the PersistentVolumeClaims whose data isn't needed.", target.instance, found.SystemIdentifier, v.instance, other.SystemIdentifier)
		}
	}
	return ""
}

// latestData: nobody knows of a later adoption of data than the target.
func (s *set) latestData(target *volumeOf) string {
	const format = "The volume of %s has data generation %s (adoption %d), but %s knows of %s (adoption %d), which replaced it. %s"
	found := target.result
	differs := func(number int64, generation string) bool {
		return number >= found.Adoptions && generation != found.DataGeneration
	}
	if r := s.record; r != nil && differs(r.Adoptions, r.DataGeneration) {
		return fmt.Sprintf(format, target.instance, found.DataGeneration, found.Adoptions, "the record of the deleted cluster", r.DataGeneration, r.Adoptions, s.orAnother())
	}
	for _, v := range s.volumes {
		if other := v.result; other != nil && differs(other.Adoptions, other.DataGeneration) {
			return fmt.Sprintf(format, target.instance, found.DataGeneration, found.Adoptions, "that of "+v.instance, other.DataGeneration, other.Adoptions, s.orAnother())
		}
	}
	return ""
}

// complete: the volume of the last primary has what it had when the cluster was deleted. A person may continue with less.
func (s *set) complete(target *volumeOf) string {
	found := target.result
	if s.person != "" || s.record == nil || !found.Position.Before(s.record.Position) {
		return ""
	}
	if found.Primary && found.Timeline > s.record.Position.Timeline {
		return "" // it was promoted, and had yet to write a checkpoint
	}
	return fmt.Sprintf("The volume of %s ends at %s, but it had reached %s when the cluster was deleted: it was rolled back, for example to a snapshot. "+
		"Bring the later volume back, or continue with what there is. %s", target.instance, place(found.Position), place(s.record.Position),
		again("spec.bootstrap.volumes.instance: %s", target.instance))
}

// ahead says which other volume has commits that the target lacks; empty: none does.
func (s *set) ahead(target *volumeOf) string {
	for _, v := range s.volumes {
		other, found := v.result, target.result
		if v == target || other == nil || other.Unusable != "" || other.DataGeneration != found.DataGeneration {
			continue
		}
		if other.Timeline > found.Timeline || other.Timeline == found.Timeline && other.Primary && found.Position.Before(other.Position) {
			return fmt.Sprintf("%s was primary last according to the annotations of the PersistentVolumeClaims, but the volume of %s is ahead of its volume: it ends at %s and "+
				"knows of timeline %d, the other one ends at %s and knows of timeline %d. Choose the instance to continue with. %s",
				target.instance, v.instance, place(other.Position), other.Timeline, place(found.Position), found.Timeline,
				again("spec.bootstrap.volumes.instance: %s", v.instance))
		}
	}
	return ""
}

// place in the WAL, for a person.
func place(p agentapi.VolumePosition) string {
	return fmt.Sprintf("%s of timeline %d", postgres.LSN(p.LSN), p.Timeline)
}
