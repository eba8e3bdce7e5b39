package observed

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
)

// An instance has a claim for its data, and one for its WAL if the cluster has WAL volumes.

// CurrentVolumes are CurrentClaims with those of their instances' WAL.
func CurrentVolumes(o *Cluster) []*corev1.PersistentVolumeClaim {
	claims := o.CurrentClaims()
	for ordinal := range max(o.Wanted(), o.Reach()) {
		claim := WALClaim(o, ordinal)
		if claim != nil && claim.DeletionTimestamp.IsZero() && !volume.IsRetained(claim) && volume.Belongs(claim, o.Cluster) {
			claims = append(claims, claim)
		}
	}
	return claims
}

// ExistingVolumes are all claims of the cluster, in the order in which they may go: of each instance the one with the data last, which leads to the other.
func ExistingVolumes(o *Cluster) []*corev1.PersistentVolumeClaim {
	var claims []*corev1.PersistentVolumeClaim
	data := o.DataInstance()
	for _, ordinal := range append([]int{data}, others(data)...) {
		for _, claim := range slices.Backward(ClaimsOf(o, ordinal)) {
			if !volume.IsRetained(claim) {
				claims = append(claims, claim)
			}
		}
	}
	return claims
}

// ClaimsOf an instance are those that exist: that of its data, and that of its WAL.
func ClaimsOf(o *Cluster, ordinal int) []*corev1.PersistentVolumeClaim {
	var claims []*corev1.PersistentVolumeClaim
	for _, claim := range []*corev1.PersistentVolumeClaim{o.Claim(ordinal), WALClaim(o, ordinal)} {
		if claim != nil {
			claims = append(claims, claim)
		}
	}
	return claims
}

// MissingClaim is a claim that an instance is to have and that isn't there; empty: none is missing.
func MissingClaim(o *Cluster, ordinal int) string {
	switch {
	case o.Claim(ordinal) == nil:
		return o.Names.Volume(ordinal)
	case o.Cluster.Spec.Storage.WAL != nil && WALClaim(o, ordinal) == nil:
		return o.Names.WALVolume(ordinal)
	}
	return ""
}

// LeavingClaim is a claim of an instance that is being deleted; nil: there is none.
func LeavingClaim(o *Cluster, ordinal int) *corev1.PersistentVolumeClaim {
	for _, claim := range ClaimsOf(o, ordinal) {
		if !claim.DeletionTimestamp.IsZero() {
			return claim
		}
	}
	return nil
}

// WALClaim is the claim of an instance's WAL; nil: there is none.
func WALClaim(o *Cluster, ordinal int) *corev1.PersistentVolumeClaim {
	claim, _ := o.Live[Key("PersistentVolumeClaim", o.Names.WALVolume(ordinal))].(*corev1.PersistentVolumeClaim)
	return claim
}
