// Package inherited gives objects of a cluster the labels and annotations of the PostgresCluster that spec.inheritedMetadata names.
// What an object has from elsewhere under such a name stays: from Howdah, a template in spec, or somebody else.
package inherited

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/flow"
)

// annotation of an object has the names of what it inherited, as JSON of a v1alpha1.InheritedMetadata. What it is no longer to have
// shows only there.
const annotation = "howdah.dev/inherited"

// Steps of it.
type Steps struct{ *apply.Applier }

// EnsureInherited gives volumes, Secrets, ConfigMaps and Services what they inherit. Pods are not among them: a label of a cluster changes without a
// restart.
func (s *Steps) EnsureInherited(ctx context.Context, o *observed.Cluster) flow.Outcome {
	for _, object := range heirs(o) {
		patch := patchOf(o.Cluster, object)
		if patch == nil {
			continue
		}
		name := object.GetName()
		data, err := json.Marshal(map[string]any{"metadata": patch})
		if err == nil {
			written := object.DeepCopyObject().(client.Object)
			err = s.Client.Patch(ctx, written, client.RawPatch(types.MergePatchType, data), client.FieldOwner(apply.FieldManager))
		}
		if client.IgnoreNotFound(err) != nil {
			return flow.Retry(fmt.Errorf("give %T %s what it inherits: %w", object, name, err))
		}
		if _, isSecret := object.(*corev1.Secret); isSecret {
			s.Secrets.Drop(o.Cluster, name)
		}
		log.FromContext(ctx).Info("Wrote inherited labels and annotations", "name", name)
	}
	return flow.Next
}

// heirs are the objects that inherit, by their keys.
func heirs(o *observed.Cluster) (all []client.Object) {
	for _, key := range slices.Sorted(maps.Keys(o.Live)) {
		object := o.Live[key]
		switch object.(type) {
		case *corev1.ConfigMap, *corev1.Secret, *corev1.Service:
			if !observed.Foreign(object, o.Cluster) && object.GetDeletionTimestamp().IsZero() {
				all = append(all, object)
			}
		}
	}
	for _, claim := range observed.CurrentVolumes(o) {
		all = append(all, claim)
	}
	return all
}

// patchOf an object's metadata; nil: it has what it is to have.
func patchOf(cluster *v1alpha1.PostgresCluster, object client.Object) map[string]any {
	wanted, had, has := v1alpha1.InheritedMetadata{}, v1alpha1.InheritedMetadata{}, v1alpha1.InheritedMetadata{}
	if cluster.Spec.InheritedMetadata != nil {
		wanted = *cluster.Spec.InheritedMetadata
	}
	if record := object.GetAnnotations()[annotation]; record != "" && json.Unmarshal([]byte(record), &had) != nil {
		had = v1alpha1.InheritedMetadata{} // somebody else has written it: what is there stays
	}
	own := templates(cluster, object)
	labels, annotations := map[string]any{}, map[string]any{}
	has.Labels = inherit(labels, wanted.Labels, had.Labels, own.Labels, cluster.Labels, object.GetLabels())
	has.Annotations = inherit(annotations, wanted.Annotations, had.Annotations, own.Annotations, cluster.Annotations, object.GetAnnotations())
	if !slices.Equal(has.Labels, had.Labels) || !slices.Equal(has.Annotations, had.Annotations) {
		annotations[annotation] = record(has)
	}
	if len(labels)+len(annotations) == 0 {
		return nil
	}
	return map[string]any{"labels": labels, "annotations": annotations}
}

// record is what the annotation says; nil removes it.
func record(has v1alpha1.InheritedMetadata) any {
	if len(has.Labels)+len(has.Annotations) == 0 {
		return nil
	}
	text, err := json.Marshal(has)
	if err != nil {
		return nil
	}
	return string(text)
}

// inherit writes into a patch what an object lacks of its cluster and what it has too much, and returns what it then has inherited.
func inherit(patch map[string]any, wanted, had, own []v1alpha1.MetadataName, cluster, object map[string]string) (has []v1alpha1.MetadataName) {
	for _, name := range slices.Sorted(slices.Values(wanted)) {
		value, given := cluster[string(name)]
		current, taken := object[string(name)]
		if !given || slices.Contains(own, name) || taken && !slices.Contains(had, name) {
			continue
		}
		if has = append(has, name); !taken || current != value {
			patch[string(name)] = value
		}
	}
	for _, name := range had {
		if _, there := object[string(name)]; there && !slices.Contains(has, name) && !slices.Contains(own, name) {
			patch[string(name)] = nil
		}
	}
	return has
}

// templates are the names that the templates of spec.services give Services.
func templates(cluster *v1alpha1.PostgresCluster, object client.Object) (names v1alpha1.InheritedMetadata) {
	if _, is := object.(*corev1.Service); !is {
		return names
	}
	services := cluster.Spec.Services
	all := []v1alpha1.ServiceTemplate{services.RW, services.RO.ServiceTemplate, services.R.ServiceTemplate}
	for _, additional := range services.Additional {
		all = append(all, additional.ServiceTemplate)
	}
	for _, template := range all {
		for name := range template.Labels {
			names.Labels = append(names.Labels, v1alpha1.MetadataName(name))
		}
		for name := range template.Annotations {
			names.Annotations = append(names.Annotations, v1alpha1.MetadataName(name))
		}
	}
	return names
}
