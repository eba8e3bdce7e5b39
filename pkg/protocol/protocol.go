// Package protocol holds every dependency between two controllers: who requests, in which field, who responds, in
// which field, and when the request is over. It consists of pure functions over the API types; docs/protocol.md is generated
// from it.
package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/apis/v1alpha1"
)

// Token is the token of a request: the requester and the number of its attempt, so that every repeat of a request has the
// same token.
func Token(uid types.UID, attempt int) string {
	return fmt.Sprintf("%s.%d", uid, attempt)
}

// DataGeneration makes the name of the data generation that an object's work writes: short, fit for a file name, and
// the same at every repeat.
func DataGeneration(uid types.UID, attempt int) string {
	return "g" + short(Token(uid, attempt), 10)
}

// Lineage is the place of a cluster's data generation in a repository.
func Lineage(systemIdentifier, dataGeneration string) string {
	if systemIdentifier == "" || dataGeneration == "" {
		return ""
	}
	return systemIdentifier + "-" + dataGeneration
}

// short is the first n hexadecimal digits of the SHA-256 of s.
func short(s string, n int) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:n]
}

// Current reports whether a controller has seen the object as it is now: a response in an older status doesn't count.
func Current(obj metav1.Object, observedGeneration int64) bool {
	return obj.GetGeneration() == observedGeneration
}

// PVCName is the name of the claim of one instance's data.
func PVCName(instance string) string { return dataPrefix + instance }

// WALClaimName is the name of the claim of one instance's WAL, where that has a volume of its own.
func WALClaimName(instance string) string { return walPrefix + instance }

// IsWALClaim says by its name whether a claim is one for WAL.
func IsWALClaim(claim string) bool { return strings.HasPrefix(claim, walPrefix) }

const (
	dataPrefix = "data-"
	walPrefix  = "wal-"
)

// AppSecret is the name of the Secret with the login of a cluster's application.
func AppSecret(cluster string) string { return cluster + "-app" }

// SuperuserSecret is the name of the Secret with the login of a cluster's superuser.
func SuperuserSecret(cluster string) string { return cluster + "-superuser" }

// InstanceOf is the instance that a claim is the data of, or the WAL.
func InstanceOf(claim string) string {
	if IsWALClaim(claim) {
		return strings.TrimPrefix(claim, walPrefix)
	}
	return strings.TrimPrefix(claim, dataPrefix)
}

// InstanceName is the name of an instance, of its pod and of its ordinal in the StatefulSet.
func InstanceName(cluster string, ordinal int) string { return fmt.Sprintf("%s-%d", cluster, ordinal) }

// PodDomain completes the name of an instance, within its namespace, to the one that it has in its certificate. It is a name
// and no more: no Service has it (an earlier suite created one), so where an instance is has to be known by its address. It stays
// what it was, so that instances and Jobs trust each other whichever suite made them.
func PodDomain(cluster string) string { return cluster + "-pods" }

// InstanceHost is the whole name of an instance in its certificate.
func InstanceHost(namespace, cluster, instance string) string {
	return fmt.Sprintf("%s.%s.%s.svc", instance, PodDomain(cluster), namespace)
}

// BackupName is the name of the Backup for a request. It follows from the request alone, so that a repeated request creates
// one Backup.
func BackupName(r v1alpha1.BackupRequest) string {
	return fmt.Sprintf("%s-%s-%s", r.Cluster, strings.ToLower(string(r.Purpose)), short(r.Token, 8))
}
