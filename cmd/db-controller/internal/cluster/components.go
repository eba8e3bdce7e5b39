package cluster

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/howdah/cmd/db-controller/internal/component/config"
	"howdah.dev/howdah/cmd/db-controller/internal/component/disruption"
	"howdah.dev/howdah/cmd/db-controller/internal/component/identity"
	"howdah.dev/howdah/cmd/db-controller/internal/component/lease"
	"howdah.dev/howdah/cmd/db-controller/internal/component/secret"
	"howdah.dev/howdah/cmd/db-controller/internal/component/service"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
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

// ensureCertificates makes the Secrets by which Jobs come to the database.
func (r *Reconciler) ensureCertificates(ctx context.Context, w *world) flow.Outcome {
	var objects []client.Object
	for name, role := range map[string]string{w.names.Backup(): agentapi.BackupRole, w.names.Upgrade(): agentapi.UpgradeRole} {
		certificate, err := secret.ClientTLS(w.cluster, name, role, w.secret(name), w.authority, w.now)
		if err != nil {
			return flow.Retry(err)
		}
		objects = append(objects, certificate)
	}
	return r.putAll(ctx, w, objects...)
}

// ensureInstanceSecret makes what pods are let in by and let in with, and copies the passwords of the application and of
// declared roles to where they find them.
func (r *Reconciler) ensureInstanceSecret(ctx context.Context, w *world) flow.Outcome {
	passwords := secret.Passwords{Roles: w.passwords}
	if app := w.secret(w.names.App()); app != nil && metav1.IsControlledBy(app, w.cluster) {
		passwords.App = app.Data[secret.KeyPassword]
	}
	wanted, err := secret.Instance(w.cluster, w.secret(w.names.InstanceSecret()), w.authority, passwords, w.now)
	if err != nil {
		return flow.Retry(err)
	}
	return r.putAll(ctx, w, wanted)
}

// ensureLogins makes the application's Secret, and the superuser's where it is asked for; where not, it goes. Those of a
// cluster that waits for a Restore may still come out of the backup, with the passwords of then.
func (r *Reconciler) ensureLogins(ctx context.Context, w *world) flow.Outcome {
	if !protocol.CreatesLogins(w.cluster) {
		return flow.Next
	}
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
		return fmt.Errorf("delete %s %s: %w", kindOf(r.Client.Scheme(), object), object.GetName(), err)
	}
	log.FromContext(ctx).Info("Deleted object", "kind", kindOf(r.Client.Scheme(), object), "name", object.GetName())
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
	role := identity.Role(w.cluster, max(w.toldInstances(), w.reach()))
	return r.putAll(ctx, w, identity.Account(w.cluster), role, identity.Binding(w.cluster))
}

// ensureLease makes the Lease, empty, before any agent looks for it. One that is there is the agents'. In
// place of one that is gone it comes only when all were told who begins.
func (r *Reconciler) ensureLease(ctx context.Context, w *world) flow.Outcome {
	if !w.lacksLease() || !w.beginningTold() {
		return flow.Next
	}
	empty := lease.Empty(w.cluster)
	if err := controllerutil.SetControllerReference(w.cluster, empty, r.Client.Scheme()); err != nil {
		return flow.Retry(fmt.Errorf("own Lease %s: %w", empty.Name, err))
	}
	err := w.own.Taken(r.Client.Create(ctx, empty, client.FieldOwner(FieldManager)))
	if client.IgnoreAlreadyExists(err) != nil {
		return flow.Retry(fmt.Errorf("create Lease %s: %w", empty.Name, err))
	}
	w.own.Remember(key("Lease", empty.Name), empty)
	log.FromContext(ctx).Info("Wrote object", "kind", "Lease", "name", empty.Name, "new", true)
	return flow.Next
}

func (r *Reconciler) ensureServices(ctx context.Context, w *world) flow.Outcome {
	var objects []client.Object
	for _, s := range service.All(w.cluster) {
		objects = append(objects, s)
	}
	return r.putAll(ctx, w, append(objects, service.PrimarySlice(w.cluster))...)
}

// ensureDisruptionBudget makes it once it protects something: Kubernetes complains of one without a pod, and writes its status
// for each pod that starts. It is never taken away.
func (r *Reconciler) ensureDisruptionBudget(ctx context.Context, w *world) flow.Outcome {
	isNew := w.live[key("PodDisruptionBudget", w.names.DisruptionBudget())] == nil
	if len(w.pods) == 0 || isNew && !w.protectable() {
		return flow.Next
	}
	return r.putAll(ctx, w, disruption.Budget(w.cluster))
}

// startTime is how long the first instance may be ready before others are, until it counts for what there will be for a while.
const startTime = time.Minute

// protectable: there is something to keep from evictions. All instances are ready, or one has been so for a while and the
// others may take hours, for a clone or a node with room.
func (w *world) protectable() bool {
	ready := 0
	for i := range w.pods {
		condition := readyCondition(&w.pods[i])
		if condition == nil || condition.Status != corev1.ConditionTrue {
			continue
		}
		if w.now.Sub(condition.LastTransitionTime.Time) > startTime {
			return true
		}
		ready++
	}
	return ready >= w.wanted()
}

// ensureVolumes makes the claims ahead of the StatefulSet, and takes back those that were left behind when their instance
// was taken away. One that is there is never changed otherwise.
func (r *Reconciler) ensureVolumes(ctx context.Context, w *world) flow.Outcome {
	if w.deleting() {
		return flow.Next
	}
	wanted := w.wanted()
	if w.awaitsInit() {
		wanted = 1 // of a claim that no pod mounts Kubernetes says time and again that it waits for one
	}
	for ordinal := range wanted {
		if err := r.ensureVolume(ctx, w, ordinal); err != nil {
			return flow.Retry(err)
		}
	}
	return flow.Next
}

func (r *Reconciler) ensureVolume(ctx context.Context, w *world, ordinal int) error {
	claim := w.claim(ordinal)
	switch {
	case claim != nil && volume.IsRetained(claim):
		reclaimed := volume.Reclaimed(claim, w.cluster)
		if err := r.Client.Patch(ctx, reclaimed, client.MergeFrom(claim), client.FieldOwner(FieldManager)); err != nil {
			return fmt.Errorf("take back PersistentVolumeClaim %s: %w", claim.Name, err)
		}
		log.FromContext(ctx).Info("Took volume back", "name", claim.Name)
	case claim == nil:
		claim = volume.Claim(w.cluster, ordinal)
		err := w.own.Taken(r.Client.Create(ctx, claim, client.FieldOwner(FieldManager)))
		if client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("create PersistentVolumeClaim %s: %w", claim.Name, err)
		}
		w.own.Remember(key("PersistentVolumeClaim", claim.Name), claim)
		w.live[key("PersistentVolumeClaim", claim.Name)] = claim // the same pass may grant them all
		log.FromContext(ctx).Info("Wrote object", "kind", "PersistentVolumeClaim", "name", claim.Name, "new", true)
	}
	return nil
}

// volumesMade are the claims of the cluster, the one with the data first.
func (w *world) volumesMade() []*corev1.PersistentVolumeClaim {
	var claims []*corev1.PersistentVolumeClaim
	data := w.dataInstance()
	for _, ordinal := range append([]int{data}, others(data)...) {
		if claim := w.claim(ordinal); claim != nil && !volume.IsRetained(claim) {
			claims = append(claims, claim)
		}
	}
	return claims
}

// others are all ordinals but one.
func others(ordinal int) []int {
	var all []int
	for i := range maxInstances {
		if i != ordinal {
			all = append(all, i)
		}
	}
	return all
}
