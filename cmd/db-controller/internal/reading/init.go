package reading

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/instances"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/workload"
)

const (
	// seenAge is how long a Lease, or a Secret of a repository, that was read past the cache counts as it was, where nothing is
	// decided on it that can't be undone.
	seenAge = 10 * time.Second
	// initAge is how long a Lease counts that was created before there was an agent to take it.
	initAge = 10 * time.Minute
)

// readLease reads the Lease where no agent says that it is there. It is not watched: it changes every few seconds.
func (r *Reader) readLease(ctx context.Context, o *observed.Cluster) error {
	if o.Wanted() == 1 && o.ToldAlone() || leaseSeen(o) {
		return nil
	}
	if o.Untouched {
		o.LeaseRead = true // EnsureLease creates it, or meets it
		return nil
	}
	name := observed.Key("Lease", o.Names.Lease())
	age := seenAge
	if o.Own.Complete() && o.StatefulSet() == nil {
		age = initAge
	}
	lease, known := o.Own.Recall(name, age).(*coordinationv1.Lease)
	if o.Fresh || !known {
		lease = &coordinationv1.Lease{}
		found, err := observed.Read(ctx, r.Live, o.Cluster.Namespace, o.Names.Lease(), lease)
		if err != nil {
			return err
		}
		o.Own.Drop(name)
		if !found {
			lease = nil
		} else if !observed.Foreign(lease, o.Cluster) {
			o.Own.Remember(name, lease)
		}
	}
	if lease != nil {
		r.remember(o, lease)
		o.Lease = lease
	}
	o.LeaseRead = true
	return nil
}

// readInit looks at the init Job until the cluster is initialized. While the cache shows that it runs, or it was created a
// moment ago, nothing else is to be done.
func (r *Reader) readInit(ctx context.Context, o *observed.Cluster) (err error) {
	if o.Initialized() || o.BootstrapsByRestore() {
		return nil
	}
	if o.InitJob, err = workload.Observe(ctx, r.Client, r.Client, o.Cluster, o.Names.InitJob()); err != nil {
		return err
	}
	name := observed.Key("Job", o.Names.InitJob())
	if o.InitJob.Exists {
		o.Own.Drop(name)
	} else if !o.InitJob.Foreign && o.Own.Created(name) != nil {
		o.InitJob = workload.State{Exists: true}
	}
	o.Initializing = o.InitJob.Exists && !o.InitJob.Deleting && !o.InitJob.Complete && !o.InitJob.Failed && !o.InitJob.Done
	return nil
}

// readImport looks for what the init Job reports. The cache is enough: it is shown, and what is decided is decided by how the Job ends. Only
// whether there may be something of an online import on its source is asked of the API server, before the cluster is forgotten, and so is the
// Job that drops it.
func (r *Reader) readImport(ctx context.Context, o *observed.Cluster) (err error) {
	if !o.Deleting() || observed.OnlineImport(o) == nil || o.HasRun() {
		return readImportReport(ctx, o, r.Client)
	}
	if o.SourceRelease, err = workload.Observe(ctx, r.Client, r.Live, o.Cluster, o.Names.ImportReleaseJob()); err != nil {
		return err
	}
	return readImportReport(ctx, o, r.Live)
}

func readImportReport(ctx context.Context, o *observed.Cluster, reader client.Reader) error {
	if !o.Imports() && !observed.Clones(o) && o.Cluster.Spec.Standby == nil {
		return nil
	}
	report := &corev1.ConfigMap{}
	found, err := observed.Read(ctx, reader, o.Cluster.Namespace, o.Names.InitJob(), report)
	if found && !observed.Foreign(report, o.Cluster) {
		o.ImportReport = report
	}
	return err
}

// readCloneSource looks at the cluster that is to be cloned. The cache is enough: the init Job asks the servers who they are.
func (r *Reader) readCloneSource(ctx context.Context, o *observed.Cluster) error {
	if !observed.Clones(o) || o.HasRun() {
		return nil
	}
	source := &v1alpha1.PostgresCluster{}
	found, err := observed.Read(ctx, r.Client, o.Cluster.Namespace, o.Cluster.Spec.Bootstrap.Clone.Cluster.Name, source)
	if found {
		o.CloneSource = source
	}
	return err
}

// readImageTrial looks at the Job that tries an image. The cache is enough: what it says of an image stays true.
func (r *Reader) readImageTrial(ctx context.Context, o *observed.Cluster) (err error) {
	o.ImageJob, err = workload.Observe(ctx, r.Client, r.Client, o.Cluster, o.Names.ImageJob())
	return err
}

// readInitEnd reads from the API server itself that the init Job has ended, or is not there. Of its pods the cache is enough:
// one that has ended well stays so, and that none writes any more is known from all pods of the cluster (readPods).
func (r *Reader) readInitEnd(ctx context.Context, o *observed.Cluster) (err error) {
	if o.HasRun() || o.StatefulSet() != nil || o.BootstrapsByRestore() || o.Initializing || !o.Fresh && instances.FirstStart(o) {
		return nil
	}
	if o.InitJob, err = workload.Observe(ctx, podsFromCache{r.Live, r.Client}, r.Live, o.Cluster, o.Names.InitJob()); err != nil || !o.Initialized() {
		return err
	}
	return readImportReport(ctx, o, r.Live) // with the last that it has said, which is recorded
}

// podsFromCache gets single objects from the API server, and lists of them from the cache.
type podsFromCache struct {
	client.Reader
	cache client.Reader
}

func (r podsFromCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return r.cache.List(ctx, list, opts...)
}

// leaseSeen: the holder says that it has renewed the Lease lately. That others know a holder says nothing: they remember it after the Lease was
// deleted.
func leaseSeen(o *observed.Cluster) bool {
	for pod, agent := range o.Agents {
		if agent.Election != nil && agent.Election.Leader == pod && !agent.Election.Failsafe {
			return true
		}
	}
	return false
}
