package reading

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/ownwrites"
	"howdah.dev/howdah/cmd/db-controller/internal/storage"
	"howdah.dev/howdah/pkg/agentapi"
)

// readClasses reads the StorageClasses of volumes that are to grow, and of those that instances are to move to.
func (r *Reader) readClasses(ctx context.Context, o *observed.Cluster) error {
	o.Classes = map[string]*storagev1.StorageClass{}
	var names []string
	for _, claim := range observed.CurrentVolumes(o) {
		if storage.TooSmall(o, claim) || storage.Filling(o) {
			names = append(names, ptr.Deref(claim.Spec.StorageClassName, ""))
		}
	}
	if moves(o) {
		names = append(names, ptr.Deref(o.Cluster.Spec.Storage.StorageClassName, ""))
	}
	for _, name := range names {
		if _, known := o.Classes[name]; known || name == "" {
			continue
		}
		class := &storagev1.StorageClass{}
		err := r.Live.Get(ctx, client.ObjectKey{Name: name}, class)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read StorageClass %s: %w", name, err)
		}
		o.Classes[name] = nil
		if err == nil {
			o.Classes[name] = class
		}
	}
	return nil
}

// moves says whether instances have other volumes than spec requests, and may move to such.
func moves(o *observed.Cluster) bool {
	if move := o.Cluster.Status.StorageMove; move != nil && move.State != v1alpha1.StorageMoveCompleted {
		return true
	}
	unlike := func(claim *corev1.PersistentVolumeClaim) bool { return volume.Unlike(o.Cluster, claim) }
	return o.Cluster.Spec.Storage.Move != nil && o.Begun() && slices.ContainsFunc(o.CurrentClaims(), unlike)
}

// Observe reads all that a pass needs. No step reads anything.
func (r *Reader) Observe(ctx context.Context, cluster *v1alpha1.PostgresCluster, own *ownwrites.View) (*observed.Cluster, error) {
	o := &observed.Cluster{
		Now: r.Now(), Cluster: cluster, Own: own, Names: component.NamesOf(cluster), Live: map[string]client.Object{},
		Agents: map[string]*agentapi.Status{}, AgentOfPods: r.Agent, Images: r.Images, Refused: map[string]string{},
	}
	if !o.Deleting() && !controllerutil.ContainsFinalizer(cluster, observed.Finalizer) {
		return o, nil // the first step writes it, and ends the pass
	}
	for _, read := range []func(context.Context, *observed.Cluster) error{
		r.readRepository, r.readOrphan, r.readObjects, r.readUnwanted, r.readCredentials, r.readPoolers, r.readFailoverDrill, r.readSecrets, r.readPasswords, r.readQueries, r.readPodMonitor,
		r.readInit, r.readImport, r.readCloneSource, standbySource{r.Client, r.Live}.read, r.readVolumes, r.readImageTrial, r.readPeers, r.readBudget, r.readInitEnd, missing{r.Live, r.Refusals}.read, r.readAgents, r.readServerTLS, r.readLease, r.readClasses,
	} {
		if err := read(ctx, o); err != nil {
			return o, err
		}
	}
	o.Seen = true
	return o, nil
}

func (r *Reader) readRepository(ctx context.Context, o *observed.Cluster) error {
	if o.Cluster.Spec.Archive == nil {
		return nil
	}
	repository := &v1alpha1.BackupRepository{}
	found, err := observed.Read(ctx, r.Client, o.Cluster.Namespace, o.Cluster.Spec.Archive.Repository.Name, repository)
	if found {
		o.Repository = repository
	}
	return err
}
