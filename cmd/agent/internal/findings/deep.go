package findings

import (
	"fmt"
	"strings"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

// Deep is what the deep checks of one instance have seen.
type Deep struct {
	At       time.Time
	Instance string
	Replica  bool
	// Service is the name that clients use. NameError says why it can't be resolved, and ServiceError why no commit through it succeeds;
	// empty: all is well, or it was not tried often enough.
	Service, NameError, ServiceError string
	// ClockAhead of the API server; negative: it is behind.
	ClockAhead time.Duration
	// Certificate that instances show each other is valid so long; zero: there is none.
	Certificate agentapi.Validity
	// ChecksumFailures of a replica since its statistics were reset.
	ChecksumFailures int64
	// Database and Index that amcheck found damaged first, in its words, of this many; empty: none.
	Database, Index, Damage string
	DamagedIndexes          int
	// Certain: no function or type of a user can have said so.
	Certain bool
	// Unchecked says what the last round through all indexes has missed; empty: nothing. TooLong of them took longer than IndexTimeout.
	Unchecked    string
	TooLong      int64
	IndexTimeout time.Duration
}

// Damaged says whether data of the instance are.
func (d Deep) Damaged() bool { return d.ChecksumFailures > 0 || d.Index != "" }

// DamageCertain says whether PostgreSQL's own code has found damage.
func (d Deep) DamageCertain() bool { return d.ChecksumFailures > 0 || d.Index != "" && d.Certain }

// JudgeDeep says what is found, at most one finding of each reason.
func JudgeDeep(d Deep) []agentapi.LoadFinding {
	var found []agentapi.LoadFinding
	for _, rule := range []func(Deep) *agentapi.LoadFinding{damage, unchecked, name, service, apiClock, peerCertificate} {
		if finding := rule(d); finding != nil {
			found = append(found, *finding)
		}
	}
	return found
}

func damage(d Deep) *agentapi.LoadFinding {
	amcheck := fmt.Sprintf("amcheck says of index %s in database %s: %s.", d.Index, d.Database, d.Damage)
	if d.DamagedIndexes > 1 {
		amcheck += fmt.Sprintf(" %d more are damaged.", d.DamagedIndexes-1)
	}
	if d.Index != "" && !d.Certain {
		amcheck += " Functions or types of users decide its order, so the error may be theirs."
	}
	switch {
	case d.Replica && d.ChecksumFailures > 0 && !d.Certain:
		return replicaDamaged(d, fmt.Sprintf("PostgreSQL has read %d pages with a wrong checksum.", d.ChecksumFailures))
	case d.Replica && d.Index != "":
		return replicaDamaged(d, amcheck)
	case d.Index != "":
		return &agentapi.LoadFinding{
			Reason:   agentapi.FindingIndexDamaged,
			Evidence: fmt.Sprintf("On the primary %s: %s", d.Instance, amcheck),
			Advice: `Rebuild it: REINDEX INDEX CONCURRENTLY; it is checked again within minutes. Then compare its table with an older backup, and look at the disk ` +
				`and at changed collations: queries that used the index may have missed rows.`,
		}
	}
	return nil
}

func replicaDamaged(d Deep, evidence string) *agentapi.LoadFinding {
	return &agentapi.LoadFinding{
		Reason:   agentapi.FindingReplicaDamaged,
		Evidence: fmt.Sprintf("On the replica %s: %s", d.Instance, evidence),
		Advice:   `Look at the disk of its node, and clone it again: spec.reinit: {instance: shop-1, token: a}.`,
	}
}

// unchecked is for the primary: a replica can only check databases that have amcheck.
func unchecked(d Deep) *agentapi.LoadFinding {
	if d.Replica || d.Unchecked == "" {
		return nil
	}
	advice := "Remove the cause, or check them with pg_amcheck at a quiet time."
	if d.TooLong > 0 && d.IndexTimeout < mostIndexTimeout {
		advice = fmt.Sprintf("For what takes too long, set spec.deepChecks.indexTimeout to more, such as %s. %s", short(min(4*d.IndexTimeout, mostIndexTimeout)), advice)
	}
	return &agentapi.LoadFinding{
		Reason:   agentapi.FindingChecksIncomplete,
		Evidence: fmt.Sprintf("On the primary %s: %s", d.Instance, d.Unchecked),
		Advice:   advice + " Until a round checks everything, no damaged replica is cloned automatically: the primary might be damaged, too.",
	}
}

// mostIndexTimeout is what spec.deepChecks.indexTimeout can be at most.
const mostIndexTimeout = 4 * time.Hour

// short leaves out of a duration what is 0: 40m, and not 40m0s.
func short(d time.Duration) string {
	return strings.Replace(strings.Replace(d.String(), "m0s", "m", 1), "h0m", "h", 1)
}

func name(d Deep) *agentapi.LoadFinding {
	if d.NameError == "" {
		return nil
	}
	return &agentapi.LoadFinding{
		Reason:   agentapi.FindingServiceNotResolved,
		Evidence: fmt.Sprintf("The pod %s can't resolve %s: %s.", d.Instance, d.Service, d.NameError),
		Advice:   `Look at the cluster's DNS (kubectl -n kube-system get pods -l k8s-app=kube-dns), and whether a NetworkPolicy lets the pod reach it.`,
	}
}

func service(d Deep) *agentapi.LoadFinding {
	if d.ServiceError == "" {
		return nil
	}
	return &agentapi.LoadFinding{
		Reason:   agentapi.FindingServiceUnreachable,
		Evidence: fmt.Sprintf("%s could not commit through %s three times in a row: %s.", d.Instance, d.Service, d.ServiceError),
		Advice: `If clients fail too, look at the EndpointSlice of the Service, at kube-proxy on the node of that pod, and at NetworkPolicies. ` +
			`If the commit timed out, it may have waited for replicas: look at status.instances.`,
	}
}

func apiClock(d Deep) *agentapi.LoadFinding {
	off := d.ClockAhead.Abs()
	if off < clockAhead {
		return nil
	}
	direction := "ahead of"
	if d.ClockAhead < 0 {
		direction = "behind"
	}
	return &agentapi.LoadFinding{
		Reason:   agentapi.FindingClockSkew,
		Evidence: fmt.Sprintf("The clock of %s is about %s %s that of the Kubernetes API server.", d.Instance, off.Round(time.Second), direction),
		Advice:   `Look at the time synchronisation (chrony, systemd-timesyncd) of its node, and of the control plane. Elections do not depend on it; certificates and times in backups do.`,
	}
}

func peerCertificate(d Deep) *agentapi.LoadFinding {
	if !d.Certificate.EndsSoon(d.At) {
		return nil
	}
	return &agentapi.LoadFinding{
		Reason:   agentapi.FindingCertificateExpires,
		Evidence: fmt.Sprintf("The certificate that %s shows to other instances expires on %s.", d.Instance, d.Certificate.Until.UTC().Format(time.RFC3339)),
		Advice:   `The db-controller renews it a month before that: look at its log, and at the condition UpToDate.`,
	}
}
