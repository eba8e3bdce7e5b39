package reading

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/service"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/instances"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
)

// readObjects reads what the cluster consists of. The cache holds only what carries our label, so what it lacks may be somebody
// else's, and the API server is asked, as far as own says.
func (r *Reader) readObjects(ctx context.Context, o *observed.Cluster) error {
	for _, object := range wantedObjects(o) {
		if err := r.readObject(ctx, o, object); err != nil {
			return err
		}
	}
	if err := r.readRemovedVolumes(ctx, o); err != nil {
		return err
	}
	if err := r.readForeign(ctx, o); err != nil {
		return err
	}
	return r.readJobs(ctx, o)
}

// readJobs looks for them in the cache alone: missing is the normal case.
func (r *Reader) readJobs(ctx context.Context, o *observed.Cluster) error {
	for _, name := range []string{o.Names.InitJob(), o.Names.ImageJob()} {
		job := observed.Named(&batchv1.Job{}, name)
		found, err := observed.Read(ctx, r.Client, o.Cluster.Namespace, name, job)
		if err != nil {
			return err
		}
		if found && (name == o.Names.InitJob() || !observed.Foreign(job, o.Cluster)) { // a foreign one is in the way of a trial only
			r.remember(o, job)
		}
	}
	return nil
}

func (r *Reader) readObject(ctx context.Context, o *observed.Cluster, object client.Object) error {
	read := o.Own.Get
	if _, isSet := object.(*appsv1.StatefulSet); isSet {
		// Whether it is there, and with what status, counts too much to go by what was written. Where it counts that there is
		// none, readPeers asks the API server.
		read = o.Own.GetShown
	}
	return r.readWith(ctx, o, read, object)
}

// readFunc of an object in one of the ways of ownwrites.
type readFunc func(ctx context.Context, key string, object client.Object) (client.Object, error)

func (r *Reader) readWith(ctx context.Context, o *observed.Cluster, read readFunc, object client.Object) error {
	found, err := read(ctx, observed.Key(observed.KindOf(r.Client.Scheme(), object), object.GetName()), object)
	if found != nil {
		r.remember(o, found)
	}
	return err
}

// readForeign looks, ahead of the first volume, for what is created after the volumes or with them: where one of those names is
// taken, no volume is created. The init Job's is looked for anyway (readInit).
func (r *Reader) readForeign(ctx context.Context, o *observed.Cluster) error {
	if !o.Own.Complete() || len(o.ExistingClaims()) > 0 {
		return nil
	}
	for _, object := range []client.Object{observed.Named(&appsv1.StatefulSet{}, o.Names.StatefulSet()), observed.Named(&policyv1.PodDisruptionBudget{}, o.Names.DisruptionBudget())} {
		found, err := observed.Read(ctx, r.Live, o.Cluster.Namespace, object.GetName(), object)
		if err != nil {
			return err
		}
		if found {
			r.remember(o, object)
		}
	}
	claims := &corev1.PersistentVolumeClaimList{}
	if err := r.Live.List(ctx, claims, client.InNamespace(o.Cluster.Namespace)); err != nil {
		return fmt.Errorf("list PersistentVolumeClaims: %w", err)
	}
	o.Untouched = true
	for ordinal := range o.Wanted() {
		for i := range claims.Items {
			if slices.Contains(claimNames(o, ordinal), claims.Items[i].Name) {
				r.remember(o, &claims.Items[i])
				o.Untouched = false
			}
		}
	}
	return nil
}

// readBudget comes after the pods, by which it is due. It is created late, so the API server is not asked before that; and of a
// cluster that this process has begun, creating it meets what is there.
func (r *Reader) readBudget(ctx context.Context, o *observed.Cluster) error {
	read := o.Own.Get
	if o.Own.Begun() || o.Begun() && !instances.Protectable(o) {
		read = o.Own.GetKnown
	}
	return r.readWith(ctx, o, read, observed.Named(&policyv1.PodDisruptionBudget{}, o.Names.DisruptionBudget()))
}

// readRemovedVolumes finds the volumes of instances that are no longer wanted. Those that were left behind are not
// the cluster's.
func (r *Reader) readRemovedVolumes(ctx context.Context, o *observed.Cluster) error {
	for ordinal := o.Wanted(); ordinal < observed.MaxInstances; ordinal++ {
		for _, name := range claimNames(o, ordinal) {
			claim := &corev1.PersistentVolumeClaim{}
			found, err := observed.Read(ctx, r.Client, o.Cluster.Namespace, name, claim)
			if err != nil {
				return err
			}
			if found && volume.Belongs(claim, o.Cluster) && !volume.IsRetained(claim) {
				r.remember(o, claim)
			}
		}
	}
	return nil
}

// claimNames are those of the claims that an instance has, or is to have.
func claimNames(o *observed.Cluster, ordinal int) []string {
	names := []string{o.Names.Volume(ordinal)}
	if o.Cluster.Spec.Storage.WAL != nil {
		names = append(names, o.Names.WALVolume(ordinal))
	}
	return names
}

func wantedObjects(o *observed.Cluster) []client.Object {
	n := o.Names
	objects := []client.Object{
		observed.Named(&corev1.ConfigMap{}, n.Config()), observed.Named(&corev1.ConfigMap{}, n.Connection()),
		observed.Named(&corev1.ServiceAccount{}, n.Identity()), observed.Named(&rbacv1.Role{}, n.Identity()), observed.Named(&rbacv1.RoleBinding{}, n.Identity()),
		observed.Named(&corev1.Service{}, n.Primary()),
		observed.Named(&discoveryv1.EndpointSlice{}, n.Primary()),
		observed.Named(&appsv1.StatefulSet{}, n.StatefulSet()),
	}
	if o.Cluster.Spec.NetworkPolicy != nil {
		objects = append(objects, observed.Named(&networkingv1.NetworkPolicy{}, n.NetworkPolicy()))
	}
	for _, wanted := range service.Selected(o.Cluster) {
		objects = append(objects, observed.Named(&corev1.Service{}, wanted.Name))
	}
	for ordinal := range o.Wanted() {
		for _, name := range claimNames(o, ordinal) {
			objects = append(objects, observed.Named(&corev1.PersistentVolumeClaim{}, name))
		}
	}
	return objects
}

func (r *Reader) remember(o *observed.Cluster, object client.Object) {
	o.Live[observed.Key(observed.KindOf(r.Client.Scheme(), object), object.GetName())] = object
}

// readUnwanted looks in the cache for the headless Service that an earlier suite created, for Services that spec has disabled, and for
// the NetworkPolicy where spec has none.
func (r *Reader) readUnwanted(ctx context.Context, o *observed.Cluster) error {
	_, disabled := service.Optional(o.Cluster)
	var unwanted []client.Object
	for _, name := range append(disabled, o.Names.Pods()) {
		unwanted = append(unwanted, observed.Named(&corev1.Service{}, name))
	}
	if o.Cluster.Spec.NetworkPolicy == nil {
		unwanted = append(unwanted, observed.Named(&networkingv1.NetworkPolicy{}, o.Names.NetworkPolicy()))
	}
	for _, live := range unwanted {
		found, err := observed.Read(ctx, r.Client, o.Cluster.Namespace, live.GetName(), live)
		if err != nil {
			return err
		}
		if found && !observed.Foreign(live, o.Cluster) {
			r.remember(o, live)
		}
	}
	return r.readUndeclaredServices(ctx, o)
}

// readUndeclaredServices finds additional Services that spec no longer has: those of the cluster that have none of its names.
func (r *Reader) readUndeclaredServices(ctx context.Context, o *observed.Cluster) error {
	services := &corev1.ServiceList{}
	if err := r.Client.List(ctx, services, client.InNamespace(o.Cluster.Namespace), client.MatchingLabels{v1alpha1.LabelCluster: o.Cluster.Name}); err != nil {
		return fmt.Errorf("list Services: %w", err)
	}
	declared := []string{o.Names.Primary(), o.Names.Replicas(), o.Names.Any(), o.Names.Pods()}
	for _, wanted := range service.Additional(o.Cluster) {
		declared = append(declared, wanted.Name)
	}
	for i := range services.Items {
		live := &services.Items[i]
		if !observed.Foreign(live, o.Cluster) && !slices.Contains(declared, live.Name) {
			r.remember(o, live)
			o.UndeclaredServices = append(o.UndeclaredServices, live.Name)
		}
	}
	return nil
}
