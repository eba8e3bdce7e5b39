package observed

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

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

// Conflict says of an object, by its key, that it is somebody else's and in the way; empty: it isn't. A cluster goes on without what is
// Dispensable.
func (o *Cluster) Conflict(key string) string {
	object := o.Live[key]
	if object == nil || !Foreign(object, o.Cluster) {
		return ""
	}
	kind, name, _ := strings.Cut(key, "/")
	taken := fmt.Sprintf("%s %s already exists and belongs to somebody else, so it is not touched. ", kind, name)
	switch {
	case kind == "Service" && o.additional(name):
		return taken + "Delete it, or use another name in spec.services.additional; everything else goes on without it."
	case o.Dispensable(key):
		return taken + "Delete it; everything else goes on without it."
	}
	return taken + "Delete it, or create the cluster under another name."
}

// Dispensable says whether a cluster goes on without an object where its name is taken. One that has not begun yet does so only without an
// additional Service, whose name is easily changed, and without a PodMonitor.
func (o *Cluster) Dispensable(key string) bool {
	kind, name, _ := strings.Cut(key, "/")
	switch n := o.Names; {
	case kind == "Service" && o.additional(name), kind == "PodMonitor":
		return true
	case !o.Begun():
		return false
	case kind == "Service":
		return name != n.Primary()
	case kind == "ConfigMap":
		return name == n.Connection()
	case kind == "Secret":
		return name == n.Pooler() || name == n.FailoverDrill() || name == n.Metrics()
	}
	return kind == "NetworkPolicy" || kind == "PodDisruptionBudget"
}

// PassedOver are the objects that the cluster goes on without, as somebody else has their names: a sentence for each, in order.
func (o *Cluster) PassedOver() (conflicts []string) {
	for _, key := range slices.Sorted(maps.Keys(o.Live)) {
		if o.Passes(key) && !strings.HasPrefix(key, "PodMonitor/") { // that has a condition of its own
			conflicts = append(conflicts, o.Conflict(key))
		}
	}
	return conflicts
}

// Passes says that the cluster goes on without an object, as somebody else has its name.
func (o *Cluster) Passes(key string) bool {
	object := o.Live[key]
	return object != nil && Foreign(object, o.Cluster) && o.Dispensable(key)
}

// additional says that spec.services.additional names the Service.
func (o *Cluster) additional(service string) bool {
	return slices.ContainsFunc(o.Cluster.Spec.Services.Additional, func(s v1alpha1.AdditionalService) bool { return o.Names.Additional(s.Name) == service })
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
