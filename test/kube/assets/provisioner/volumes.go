package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// localVolumes makes a folder per volume and describes it as a volume of type "local", not "hostPath":
// kubelet applies fsGroup only to local ones.
type localVolumes struct{ base string }

func (l localVolumes) Provision(_ context.Context, options controller.ProvisionOptions) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	if options.SelectedNodeName == "" {
		return nil, controller.ProvisioningFinished, fmt.Errorf("class %s must bind WaitForFirstConsumer: a local volume needs a node", options.StorageClass.Name)
	}
	folder := filepath.Join(l.base, options.SelectedNodeName, options.PVName)
	if err := makeOpen(folder); err != nil {
		return nil, controller.ProvisioningNoChange, err
	}
	return describe(options, folder), controller.ProvisioningFinished, nil
}

// Delete removes the data of a volume; a folder that is gone already is fine.
func (l localVolumes) Delete(_ context.Context, volume *corev1.PersistentVolume) error {
	if volume.Spec.Local == nil {
		return fmt.Errorf("volume %s is not local", volume.Name)
	}
	return os.RemoveAll(volume.Spec.Local.Path)
}

// makeOpen makes a folder that any user of a pod may write to, whatever the umask is.
func makeOpen(folder string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	return os.Chmod(folder, 0o777)
}

func describe(options controller.ProvisionOptions, folder string) *corev1.PersistentVolume {
	mode := corev1.PersistentVolumeFilesystem
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: options.PVName},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *options.StorageClass.ReclaimPolicy,
			AccessModes:                   options.PVC.Spec.AccessModes,
			VolumeMode:                    &mode,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: options.PVC.Spec.Resources.Requests[corev1.ResourceStorage]},
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: folder}},
			NodeAffinity:                  onNode(options.SelectedNodeName),
		},
	}
}

// onNode says where the volume is; a node's name equals its hostname label here.
func onNode(name string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{name},
		}},
	}}}}
}
