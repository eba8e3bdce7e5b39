package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/component/certificate"
	"howdah.dev/howdah/cmd/db-controller/internal/component/secret"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/ownwrites"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/workload"
)

// observe reads all that a pass needs. No step reads anything.
func (r *Reconciler) observe(ctx context.Context, cluster *v1alpha1.PostgresCluster, own *ownwrites.View, pass *flow.Pass) (*world, error) {
	w := &world{
		now: r.Now(), cluster: cluster, own: own, record: pass.Record, names: component.NamesOf(cluster), live: map[string]client.Object{},
		agents: map[string]*agentapi.Status{}, agentOfPods: r.Agent, refused: map[string]string{},
	}
	if !w.deleting() && !controllerutil.ContainsFinalizer(cluster, Finalizer) {
		return w, nil // the first step writes it, and ends the pass
	}
	for _, read := range []func(context.Context, *world) error{
		r.readRepository, r.readObjects, r.readPodsService, r.readCredentials, r.readSecrets, r.readPasswords,
		r.readInit, r.readPeers, r.readBudget, r.readInitEnd, r.readAgents, r.readLease, r.readClasses,
	} {
		if err := read(ctx, w); err != nil {
			return w, err
		}
	}
	w.seen = true
	return w, nil
}

func (r *Reconciler) readRepository(ctx context.Context, w *world) error {
	if w.cluster.Spec.Archive == nil {
		return nil
	}
	repository := &v1alpha1.BackupRepository{}
	found, err := read(ctx, r.Client, w.cluster.Namespace, w.cluster.Spec.Archive.Repository.Name, repository)
	if found {
		w.repository = repository
	}
	return err
}

// readCredentials looks whether the Secrets of the repository are there, when pods don't mount them yet.
func (r *Reconciler) readCredentials(ctx context.Context, w *world) error {
	set, missing := w.statefulSet(), ""
	for name, mounted := range map[string]string{w.s3Secret(): statefulset.S3Secret(set), w.keysSecret(): statefulset.KeysSecret(set)} {
		if name == "" || name == mounted || w.own.Recall(key("Secret", name), seenAge) != nil {
			continue
		}
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		found, err := read(ctx, r.Live, w.cluster.Namespace, name, secret)
		if err != nil {
			return err
		}
		if found {
			w.own.Remember(key("Secret", name), secret)
		} else {
			missing = max(missing, name)
		}
	}
	w.missingSecret = missing
	return nil
}

// readObjects reads what the cluster is made of. The cache holds only what carries our label, so what it lacks may be somebody
// else's, and the API server is asked, as far as own says.
func (r *Reconciler) readObjects(ctx context.Context, w *world) error {
	for _, object := range wantedObjects(w.names, w.wanted()) {
		if err := r.readObject(ctx, w, object); err != nil {
			return err
		}
	}
	if err := r.readRemovedVolumes(ctx, w); err != nil {
		return err
	}
	if err := r.readLast(ctx, w); err != nil {
		return err
	}
	// The init Job is looked for in the cache alone: missing is the normal case.
	job := named(&batchv1.Job{}, w.names.InitJob())
	found, err := read(ctx, r.Client, w.cluster.Namespace, job.GetName(), job)
	if found {
		r.remember(w, job)
	}
	return err
}

func (r *Reconciler) readObject(ctx context.Context, w *world, object client.Object) error {
	read := w.own.Get
	if _, isSet := object.(*appsv1.StatefulSet); isSet {
		// Whether it is there, and with what status, counts too much to go by what was written. Where it counts that there is
		// none, readPeers asks the API server.
		read = w.own.GetShown
	}
	return r.readWith(ctx, w, read, object)
}

// reading of an object in one of the ways of ownwrites.
type reading func(ctx context.Context, key string, object client.Object) (client.Object, error)

func (r *Reconciler) readWith(ctx context.Context, w *world, read reading, object client.Object) error {
	found, err := read(ctx, key(kindOf(r.Client.Scheme(), object), object.GetName()), object)
	if found != nil {
		r.remember(w, found)
	}
	return err
}

// readLast looks, ahead of the first volume, for what is made after the volumes or with them: where one of those names is
// taken, no volume is made. The init Job's is looked for anyway (readInit).
func (r *Reconciler) readLast(ctx context.Context, w *world) error {
	if !w.own.Complete() || len(w.volumesMade()) > 0 {
		return nil
	}
	for _, object := range []client.Object{named(&appsv1.StatefulSet{}, w.names.StatefulSet()), named(&policyv1.PodDisruptionBudget{}, w.names.DisruptionBudget())} {
		found, err := read(ctx, r.Live, w.cluster.Namespace, object.GetName(), object)
		if err != nil {
			return err
		}
		if found {
			r.remember(w, object)
		}
	}
	claims := &corev1.PersistentVolumeClaimList{}
	if err := r.Live.List(ctx, claims, client.InNamespace(w.cluster.Namespace)); err != nil {
		return fmt.Errorf("list PersistentVolumeClaims: %w", err)
	}
	w.untouched = true
	for ordinal := range w.wanted() {
		for i := range claims.Items {
			if claims.Items[i].Name == w.names.Volume(ordinal) {
				r.remember(w, &claims.Items[i])
				w.untouched = false
			}
		}
	}
	return nil
}

// readBudget comes after the pods, by which it is due. It is created late, so the API server is not asked before that; and of a
// cluster that this process has begun, creating it meets what is there.
func (r *Reconciler) readBudget(ctx context.Context, w *world) error {
	read := w.own.Get
	if w.own.Begun() || w.begun() && !w.protectable() {
		read = w.own.GetKnown
	}
	return r.readWith(ctx, w, read, named(&policyv1.PodDisruptionBudget{}, w.names.DisruptionBudget()))
}

// readRemovedVolumes finds the volumes of instances that are not wanted any more. Those that were left behind are not
// the cluster's.
func (r *Reconciler) readRemovedVolumes(ctx context.Context, w *world) error {
	for ordinal := w.wanted(); ordinal < maxInstances; ordinal++ {
		claim := &corev1.PersistentVolumeClaim{}
		found, err := read(ctx, r.Client, w.cluster.Namespace, w.names.Volume(ordinal), claim)
		if err != nil {
			return err
		}
		if found && volume.Belongs(claim, w.cluster) && !volume.IsRetained(claim) {
			r.remember(w, claim)
		}
	}
	return nil
}

const (
	// seenAge is how long a Lease, or a Secret of a repository, that was read past the cache counts as it was, where nothing is
	// decided on it that can't be undone.
	seenAge = 10 * time.Second
	// initAge is how long a Lease counts that was created before there was an agent to take it.
	initAge = 10 * time.Minute
)

func wantedObjects(n component.Names, instances int) []client.Object {
	objects := []client.Object{
		named(&corev1.ConfigMap{}, n.Config()), named(&corev1.ConfigMap{}, n.Connection()),
		named(&corev1.ServiceAccount{}, n.Identity()), named(&rbacv1.Role{}, n.Identity()), named(&rbacv1.RoleBinding{}, n.Identity()),
		named(&corev1.Service{}, n.Primary()), named(&corev1.Service{}, n.Replicas()),
		named(&corev1.Service{}, n.Any()),
		named(&discoveryv1.EndpointSlice{}, n.Primary()),
		named(&appsv1.StatefulSet{}, n.StatefulSet()),
	}
	for ordinal := range instances {
		objects = append(objects, named(&corev1.PersistentVolumeClaim{}, n.Volume(ordinal)))
	}
	return objects
}

func named(object client.Object, name string) client.Object {
	object.SetName(name)
	return object
}

func (r *Reconciler) remember(w *world, object client.Object) {
	w.live[key(kindOf(r.Client.Scheme(), object), object.GetName())] = object
}

// kindOf is the kind of an object, as in the keys of live objects.
func kindOf(scheme *runtime.Scheme, object client.Object) string {
	gvk, err := apiutil.GVKForObject(object, scheme)
	if err != nil {
		panic(err) // our own list of kinds, all of them registered
	}
	return gvk.Kind
}

func (r *Reconciler) readSecrets(ctx context.Context, w *world) error {
	names := w.names.Secrets()
	if !w.cluster.Spec.SuperuserAccess && superuserSecretOf(w.cluster) == "" {
		names = slices.DeleteFunc(names, func(name string) bool { return name == w.names.Superuser() })
	}
	for _, name := range names {
		if w.own.Complete() {
			if known := r.secrets.get(w.cluster, name, w.now); known != nil {
				w.live[key("Secret", name)] = known
			}
			continue
		}
		found, err := r.secrets.read(ctx, r.Client, w.cluster, name, w.now)
		if err != nil {
			return err
		}
		if found != nil {
			w.live[key("Secret", name)] = found
		}
	}
	if s := w.secret(w.names.Authority()); s != nil && metav1.IsControlledBy(s, w.cluster) {
		// One that can't be read is made anew by its step.
		w.authority, _ = certificate.ParseAuthority(s.Data[secret.KeyAuthority], s.Data[secret.KeyAuthorityKey])
	}
	return nil
}

func superuserSecretOf(cluster *v1alpha1.PostgresCluster) string {
	if cluster.Status.Connection == nil {
		return ""
	}
	return cluster.Status.Connection.SuperuserSecret
}

// readLease reads the Lease where no agent says that it is there. It is not watched: it changes every few seconds.
func (r *Reconciler) readLease(ctx context.Context, w *world) error {
	if w.wanted() == 1 && w.toldAlone() || w.leaseSeen() {
		return nil
	}
	if w.untouched {
		w.leaseRead = true // ensureLease makes it, or meets it
		return nil
	}
	name := key("Lease", w.names.Lease())
	age := seenAge
	if w.own.Complete() && w.statefulSet() == nil {
		age = initAge
	}
	lease, known := w.own.Recall(name, age).(*coordinationv1.Lease)
	if w.fresh || !known {
		lease = &coordinationv1.Lease{}
		found, err := read(ctx, r.Live, w.cluster.Namespace, w.names.Lease(), lease)
		if err != nil {
			return err
		}
		w.own.Drop(name)
		if !found {
			lease = nil
		} else if !foreign(lease, w.cluster) {
			w.own.Remember(name, lease)
		}
	}
	if lease != nil {
		r.remember(w, lease)
		w.lease = lease
	}
	w.leaseRead = true
	return nil
}

// readInit looks at the init Job until the cluster is initialized. While the cache shows that it runs, or it was made a
// moment ago, nothing else is to be done.
func (r *Reconciler) readInit(ctx context.Context, w *world) (err error) {
	if w.initialized() || w.bootstrapsByRestore() {
		return nil
	}
	if w.initJob, err = workload.Observe(ctx, r.Client, r.Client, w.cluster, w.names.InitJob()); err != nil {
		return err
	}
	name := key("Job", w.names.InitJob())
	if w.initJob.Exists {
		w.own.Drop(name)
	} else if !w.initJob.Foreign && w.own.Created(name) != nil {
		w.initJob = workload.State{Exists: true}
	}
	w.initializing = w.initJob.Exists && !w.initJob.Deleting && !w.initJob.Complete && !w.initJob.Failed && !w.initJob.Done
	return nil
}

// readInitEnd reads from the API server itself that the init Job has ended, or is not there. Of its pods the cache is enough:
// one that has ended well stays so, and that none writes any more is known from all pods of the cluster (readPods).
func (r *Reconciler) readInitEnd(ctx context.Context, w *world) (err error) {
	if w.hasRun() || w.statefulSet() != nil || w.bootstrapsByRestore() || w.initializing || !w.fresh && w.firstStart() {
		return nil
	}
	w.initJob, err = workload.Observe(ctx, podsFromCache{r.Live, r.Client}, r.Live, w.cluster, w.names.InitJob())
	return err
}

// podsFromCache gets single objects from the API server, and lists of them from the cache.
type podsFromCache struct {
	client.Reader
	cache client.Reader
}

func (r podsFromCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return r.cache.List(ctx, list, opts...)
}

// read says whether the object is there.
func read(ctx context.Context, reader client.Reader, namespace, name string, into client.Object) (bool, error) {
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %T %s: %w", into, name, err)
	}
	return true, nil
}
