package observed

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/pkg/agentapi"
)

// Foreign says whether an object belongs to somebody else.
func Foreign(object client.Object, cluster *v1alpha1.PostgresCluster) bool {
	return !metav1.IsControlledBy(object, cluster)
}

// ExistingClaims are the claims of the cluster, the one with the data first.
func (o *Cluster) ExistingClaims() []*corev1.PersistentVolumeClaim {
	var claims []*corev1.PersistentVolumeClaim
	data := o.DataInstance()
	for _, ordinal := range append([]int{data}, others(data)...) {
		if claim := o.Claim(ordinal); claim != nil && !volume.IsRetained(claim) {
			claims = append(claims, claim)
		}
	}
	return claims
}

// others are all ordinals but one.
func others(ordinal int) []int {
	var all []int
	for i := range MaxInstances {
		if i != ordinal {
			all = append(all, i)
		}
	}
	return all
}

// CurrentClaims are those of the instances that there are or are to be, by their ordinals. Those that are on their way out, or
// were left behind, are not among them.
func (o *Cluster) CurrentClaims() []*corev1.PersistentVolumeClaim {
	var claims []*corev1.PersistentVolumeClaim
	for ordinal := range max(o.Wanted(), o.Reach()) {
		claim := o.Claim(ordinal)
		if claim != nil && claim.DeletionTimestamp.IsZero() && !volume.IsRetained(claim) && volume.Belongs(claim, o.Cluster) {
			claims = append(claims, claim)
		}
	}
	return claims
}

// Named gives an object its name, to be read by it.
func Named(object client.Object, name string) client.Object {
	object.SetName(name)
	return object
}

// KindOf is the kind of an object, as in the keys of live objects.
func KindOf(scheme *runtime.Scheme, object client.Object) string {
	gvk, err := apiutil.GVKForObject(object, scheme)
	if err != nil {
		panic(err) // our own list of kinds, all of them registered
	}
	return gvk.Kind
}

// Read says whether the object is there.
func Read(ctx context.Context, reader client.Reader, namespace, name string, into client.Object) (bool, error) {
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %T %s: %w", into, name, err)
	}
	return true, nil
}

// StatefulSet of this very cluster; nil: there is none.
func (o *Cluster) StatefulSet() *appsv1.StatefulSet {
	set, ok := o.Live[Key("StatefulSet", o.Names.StatefulSet())].(*appsv1.StatefulSet)
	if !ok || Foreign(set, o.Cluster) {
		return nil
	}
	return set
}

// Secret is a Secret of the cluster that was read; nil: there is none.
func (o *Cluster) Secret(name string) *corev1.Secret {
	secret, _ := o.Live[Key("Secret", name)].(*corev1.Secret)
	return secret
}

// Claim is the claim of an instance; nil: there is none.
func (o *Cluster) Claim(ordinal int) *corev1.PersistentVolumeClaim {
	claim, _ := o.Live[Key("PersistentVolumeClaim", o.Names.Volume(ordinal))].(*corev1.PersistentVolumeClaim)
	return claim
}

// LastConfig is what the agents were told last; empty: nothing that can be read.
func (o *Cluster) LastConfig() agentapi.Config {
	last := agentapi.Config{}
	configMap, ok := o.Live[Key("ConfigMap", o.Names.Config())].(*corev1.ConfigMap)
	if !ok || json.Unmarshal([]byte(configMap.Data[filepath.Base(agentapi.ConfigFile)]), &last) != nil {
		return agentapi.Config{}
	}
	return last
}

// LastRepository is which repository the agents were told last to be at the place that WAL goes to; nil: none that can be read.
func (o *Cluster) LastRepository() *agentapi.Repository {
	last := &agentapi.Repository{}
	configMap, ok := o.Live[Key("ConfigMap", o.Names.Config())].(*corev1.ConfigMap)
	if !ok || json.Unmarshal([]byte(configMap.Data[filepath.Base(agentapi.RepositoryFile)]), last) != nil || last.Identity == "" {
		return nil
	}
	return last
}

// Key is under what name an object of a kind is kept.
func Key(kind, name string) string { return kind + "/" + name }
