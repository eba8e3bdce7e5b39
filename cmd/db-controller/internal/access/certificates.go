package access

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/secret"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
)

// EnsureRoleCertificates creates the Secrets by which declared roles log in without a password, and renews what is in them.
// One that can't be created keeps nothing else from being done.
func (s *Steps) EnsureRoleCertificates(ctx context.Context, o *observed.Cluster) flow.Outcome {
	for i := range o.Cluster.Spec.Roles {
		role := &o.Cluster.Spec.Roles[i]
		if role.CertificateSecret == nil || role.Ensure == v1alpha1.Absent {
			continue
		}
		if err := s.ensureRoleCertificate(ctx, o, role); err != nil {
			return flow.Retry(err)
		}
	}
	return flow.Next
}

// EnsurePoolerCertificate creates the Secret by which poolers come to the agents and to the database, and clients to them. It says in status for
// which poolers, once it is written.
func (s *Steps) EnsurePoolerCertificate(ctx context.Context, o *observed.Cluster) flow.Outcome {
	live := o.Secret(o.Names.Pooler())
	if len(o.Poolers) == 0 {
		if err := s.removeCertificate(ctx, o, live); err != nil {
			return flow.Retry(err)
		}
		o.Cluster.Status.Poolers = nil // last: without it nobody looks for the Secret
		return flow.Next
	}
	if observed.Passes(o, observed.Key("Secret", o.Names.Pooler())) {
		return flow.Next // poolers wait until status names them
	}
	wanted, err := secret.PoolerTLS(o.Cluster, o.Poolers, live, o.Authority, o.Now)
	if err != nil {
		return flow.Retry(err)
	}
	if err := s.Put(ctx, o, wanted); err != nil {
		return flow.Retry(err)
	}
	o.Cluster.Status.Poolers = o.Poolers
	return flow.Next
}

// removeCertificate removes the Secret of a certificate that nobody needs any more, if there is one and it is the cluster's.
func (s *Steps) removeCertificate(ctx context.Context, o *observed.Cluster, live *corev1.Secret) error {
	if live == nil || observed.Foreign(live, o.Cluster) {
		return nil
	}
	s.Secrets.Drop(o.Cluster, live.Name)
	return s.Remove(ctx, live)
}

// EnsureFailoverDrillCertificate creates the Secret by which the Job of the failover drill whose turn it is comes to the database. Once it is
// written, status says so, and from that the agents are told of the drill. Without a drill, both are removed.
func (s *Steps) EnsureFailoverDrillCertificate(ctx context.Context, o *observed.Cluster) flow.Outcome {
	live, status := o.Secret(o.Names.FailoverDrill()), &o.Cluster.Status
	if o.FailoverDrill == nil {
		if err := s.removeCertificate(ctx, o, live); err != nil {
			return flow.Retry(err)
		}
		status.FailoverDrill = nil // last, as above
		return flow.Next
	}
	if observed.Passes(o, observed.Key("Secret", o.Names.FailoverDrill())) {
		return flow.Next // the drill waits for a response
	}
	wanted, err := secret.ClientTLS(o.Cluster, o.Names.FailoverDrill(), agentapi.FailoverDrillRole, live, o.Authority, o.Now)
	if err != nil {
		return flow.Retry(err)
	}
	if err := s.Put(ctx, o, wanted); err != nil {
		return flow.Retry(err)
	}
	if status.FailoverDrill == nil || status.FailoverDrill.UID != o.FailoverDrill.UID {
		status.FailoverDrill = &v1alpha1.ClusterFailoverDrill{
			Name: o.FailoverDrill.Name, UID: o.FailoverDrill.UID, State: v1alpha1.FailoverDrillPrepared, Message: "The Job that writes rows may start.",
		}
	}
	return flow.Next
}

func (s *Steps) ensureRoleCertificate(ctx context.Context, o *observed.Cluster, role *v1alpha1.Role) error {
	name := role.CertificateSecret.Name
	live, err := s.Secrets.Borrow(ctx, s.Client, o.Cluster, name, o.Now)
	if err != nil {
		return err
	}
	if why := certificateTaken(o, role, live); why != "" {
		o.NoCertificates = append(o.NoCertificates, fmt.Sprintf("role %s has no certificate: %s", role.Name, why))
		return nil
	}
	wanted, err := secret.RoleTLS(o.Cluster, role, live, o.Authority, o.Now)
	if err != nil {
		return err
	}
	if live != nil {
		o.Live[observed.Key("Secret", name)] = live
	}
	return s.Put(ctx, o, wanted)
}

// certificateTaken says why a role's certificate can't be put where it is asked for, or nothing.
func certificateTaken(o *observed.Cluster, role *v1alpha1.Role, live *corev1.Secret) string {
	name := role.CertificateSecret.Name
	switch {
	case slices.Contains(o.Names.Secrets(), name):
		return fmt.Sprintf("Secret %s is one of the cluster's own; name another one in its certificateSecret", name)
	case live == nil:
		return ""
	case observed.Foreign(live, o.Cluster):
		return fmt.Sprintf("Secret %s already exists and belongs to somebody else, so it is not touched; delete it, or name another one in its certificateSecret", name)
	case live.Annotations[secret.AnnotationRole] != role.Name:
		return fmt.Sprintf("Secret %s has the certificate of role %s; name another one in its certificateSecret", name, live.Annotations[secret.AnnotationRole])
	}
	return ""
}
