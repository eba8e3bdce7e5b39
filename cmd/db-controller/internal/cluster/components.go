package cluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/howdah/cmd/db-controller/internal/component/config"
	"howdah.dev/howdah/cmd/db-controller/internal/component/disruption"
	"howdah.dev/howdah/cmd/db-controller/internal/component/identity"
	"howdah.dev/howdah/cmd/db-controller/internal/component/secret"
	"howdah.dev/howdah/cmd/db-controller/internal/component/service"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
)

// putAll puts several objects that don't depend on each other. Each is written on its own, so a crash between two of them
// is only a repeat.
func (r *Reconciler) putAll(ctx context.Context, w *world, objects ...client.Object) flow.Outcome {
	for _, object := range objects {
		if err := r.put(ctx, w, object); err != nil {
			return flow.Retry(err)
		}
	}
	return flow.Next
}

func (r *Reconciler) ensureAuthority(ctx context.Context, w *world) flow.Outcome {
	wanted, authority, err := secret.Authority(w.cluster, w.secret(w.names.Authority()), w.now)
	if err != nil {
		return flow.Retry(err)
	}
	if err := r.put(ctx, w, wanted); err != nil {
		return flow.Retry(err)
	}
	w.authority = authority
	return flow.Next
}

func (r *Reconciler) ensureCertificates(ctx context.Context, w *world) flow.Outcome {
	server, err := secret.ServerTLS(w.cluster, w.secret(w.names.ServerTLS()), w.authority, w.now)
	if err != nil {
		return flow.Retry(err)
	}
	objects := []client.Object{server}
	for name, role := range map[string]string{w.names.Backup(): agentapi.BackupRole, w.names.Upgrade(): agentapi.UpgradeRole} {
		certificate, err := secret.ClientTLS(w.cluster, name, role, w.secret(name), w.authority, w.now)
		if err != nil {
			return flow.Retry(err)
		}
		objects = append(objects, certificate)
	}
	return r.putAll(ctx, w, objects...)
}

// ensureLogins makes the application's Secret, and the superuser's where it is asked for; where not, it goes.
func (r *Reconciler) ensureLogins(ctx context.Context, w *world) flow.Outcome {
	bundle := w.authority.Bundle
	objects := []client.Object{secret.App(w.cluster, w.secret(w.names.App()), bundle)}
	superuser := w.secret(w.names.Superuser())
	if w.cluster.Spec.SuperuserAccess {
		objects = append(objects, secret.Superuser(w.cluster, superuser, bundle))
	} else if superuser != nil && !foreign(superuser, w.cluster) {
		if err := r.remove(ctx, superuser); err != nil {
			return flow.Retry(err)
		}
		r.secrets.drop(w.cluster, superuser.Name)
	}
	return r.putAll(ctx, w, objects...)
}

// remove deletes the very object that was seen.
func (r *Reconciler) remove(ctx context.Context, object client.Object) error {
	uid := object.GetUID()
	err := r.Client.Delete(ctx, object, client.Preconditions{UID: &uid}, client.PropagationPolicy("Background"))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s %s: %w", r.kindOf(object), object.GetName(), err)
	}
	log.FromContext(ctx).Info("Deleted object", "kind", r.kindOf(object), "name", object.GetName())
	return nil
}

func (r *Reconciler) ensureConfigMaps(ctx context.Context, w *world) flow.Outcome {
	agent, err := config.AgentMap(w.cluster, w.agentConfig())
	if err != nil {
		return flow.Retry(err)
	}
	return r.putAll(ctx, w, agent, config.ConnectionMap(w.cluster, w.authority.Bundle))
}

func (r *Reconciler) ensureIdentity(ctx context.Context, w *world) flow.Outcome {
	return r.putAll(ctx, w, identity.Account(w.cluster), identity.Role(w.cluster), identity.Binding(w.cluster))
}

func (r *Reconciler) ensureServices(ctx context.Context, w *world) flow.Outcome {
	var objects []client.Object
	for _, s := range service.All(w.cluster) {
		objects = append(objects, s)
	}
	return r.putAll(ctx, w, append(objects, service.PrimarySlice(w.cluster))...)
}

func (r *Reconciler) ensureDisruptionBudget(ctx context.Context, w *world) flow.Outcome {
	return r.putAll(ctx, w, disruption.Budget(w.cluster))
}

// ensureVolumes makes the claims ahead of the StatefulSet. One that is there is never changed.
func (r *Reconciler) ensureVolumes(ctx context.Context, w *world) flow.Outcome {
	if w.claim(0) != nil || w.deleting() {
		return flow.Next
	}
	claim := volume.Claim(w.cluster, 0)
	if err := r.Client.Create(ctx, claim, client.FieldOwner(FieldManager)); client.IgnoreAlreadyExists(err) != nil {
		return flow.Retry(fmt.Errorf("create PersistentVolumeClaim %s: %w", claim.Name, err))
	}
	log.FromContext(ctx).Info("Wrote object", "kind", "PersistentVolumeClaim", "name", claim.Name, "new", true)
	return flow.Next
}

// volumesMade are the claims that a holder gets.
func (w *world) volumesMade() []*corev1.PersistentVolumeClaim {
	if claim := w.claim(0); claim != nil {
		return []*corev1.PersistentVolumeClaim{claim}
	}
	return nil
}
