package workload

import (
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
)

// Environment variables of spec.pods, as Kubernetes has them.
func Environment(variables []v1alpha1.EnvVar) (all []corev1.EnvVar) {
	for _, v := range variables {
		variable := corev1.EnvVar{Name: v.Name, Value: v.Value}
		if from := v.ValueFrom; from != nil {
			variable.ValueFrom = &corev1.EnvVarSource{}
			if key := from.SecretKeyRef; key != nil {
				variable.ValueFrom.SecretKeyRef = &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: key.Name}, Key: key.Key, Optional: Optional(key.Optional)}
			}
			if key := from.ConfigMapKeyRef; key != nil {
				variable.ValueFrom.ConfigMapKeyRef = &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: key.Name}, Key: key.Key, Optional: Optional(key.Optional)}
			}
			if field := from.FieldRef; field != nil {
				variable.ValueFrom.FieldRef = &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: field.FieldPath}
			}
		}
		all = append(all, variable)
	}
	return all
}

// Optional leaves out what says nothing.
func Optional(yes bool) *bool {
	if !yes {
		return nil
	}
	return &yes
}
