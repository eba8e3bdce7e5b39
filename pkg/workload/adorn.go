package workload

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

// Adorn adds labels and annotations that a person wants on an object. Those that are Howdah's stay as they are.
func Adorn(meta *metav1.ObjectMeta, labels map[string]v1alpha1.LabelValue, annotations map[string]string) {
	for name, value := range labels {
		if _, ours := meta.Labels[name]; !ours {
			metav1.SetMetaDataLabel(meta, name, string(value))
		}
	}
	for name, value := range annotations {
		if _, ours := meta.Annotations[name]; !ours {
			metav1.SetMetaDataAnnotation(meta, name, value)
		}
	}
}

// template is the metadata of the pods of a Job.
func (j Job) template() metav1.ObjectMeta {
	meta := metav1.ObjectMeta{Labels: j.labels()}
	if j.ClusterSpec != nil {
		Adorn(&meta, j.ClusterSpec.Pods.Labels, j.ClusterSpec.Pods.Annotations)
	}
	return meta
}

// account is the metadata of the ServiceAccount of a Job.
func (j Job) account() metav1.ObjectMeta {
	meta := j.meta()
	if j.ClusterSpec != nil {
		Adorn(&meta, nil, j.ClusterSpec.Pods.ServiceAccountAnnotations)
	}
	return meta
}
