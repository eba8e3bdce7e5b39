package cluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/secret"
	"howdah.dev/howdah/pkg/flow"
)

// ensureRoleCertificates makes the Secrets by which declared roles log in without a password, and renews what is in them.
// One that can't be made keeps nothing else from being done.
func (r *Reconciler) ensureRoleCertificates(ctx context.Context, w *world) flow.Outcome {
	for i := range w.cluster.Spec.Roles {
		role := &w.cluster.Spec.Roles[i]
		if role.CertificateSecret == nil || role.Ensure == v1alpha1.Absent {
			continue
		}
		if err := r.ensureRoleCertificate(ctx, w, role); err != nil {
			return flow.Retry(err)
		}
	}
	return flow.Next
}

func (r *Reconciler) ensureRoleCertificate(ctx context.Context, w *world, role *v1alpha1.Role) error {
	name := role.CertificateSecret.Name
	live, err := r.secrets.borrow(ctx, r.Client, w.cluster, name, w.now)
	if err != nil {
		return err
	}
	if why := w.certificateTaken(role, live); why != "" {
		w.noCertificates = append(w.noCertificates, fmt.Sprintf("role %s has no certificate: %s", role.Name, why))
		return nil
	}
	wanted, err := secret.RoleTLS(w.cluster, role, live, w.authority, w.now)
	if err != nil {
		return err
	}
	if live != nil {
		w.live[key("Secret", name)] = live
	}
	return r.put(ctx, w, wanted)
}

// certificateTaken says why a role's certificate can't be put where it is asked for, or nothing.
func (w *world) certificateTaken(role *v1alpha1.Role, live *corev1.Secret) string {
	name := role.CertificateSecret.Name
	switch {
	case slices.Contains(w.names.Secrets(), name):
		return fmt.Sprintf("Secret %s is one of the cluster's own: name another in its certificateSecret", name)
	case live == nil:
		return ""
	case foreign(live, w.cluster):
		return fmt.Sprintf("Secret %s is there and belongs to somebody else, so it is not touched: delete it, or name another in its certificateSecret", name)
	case live.Annotations[secret.AnnotationRole] != role.Name:
		return fmt.Sprintf("Secret %s has the certificate of role %s: name another in its certificateSecret", name, live.Annotations[secret.AnnotationRole])
	}
	return ""
}
