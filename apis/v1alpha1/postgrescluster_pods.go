package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// Pods is what the pods of a cluster have in addition. All of it is in the pods of the instances; labels, annotations and the
// runtime class are in the pods of its Jobs, too.
// +kubebuilder:validation:XValidation:rule="!has(self.volumeMounts) || self.volumeMounts.all(m, has(self.volumes) && self.volumes.exists(v, v.name == m.name))",message="spec.pods.volumeMounts has a name that none of spec.pods.volumes has; add the volume, or correct the name"
// +kubebuilder:validation:XValidation:rule="!has(self.containers) || self.containers.all(c, !has(c.volumeMounts) || c.volumeMounts.all(m, has(self.volumes) && self.volumes.exists(v, v.name == m.name)))",message="spec.pods.containers mounts a volume that none of spec.pods.volumes is; add the volume, or correct the name. The volumes of PostgreSQL can't be mounted"
// +kubebuilder:validation:XValidation:rule="!has(self.initContainers) || self.initContainers.all(c, !has(c.volumeMounts) || c.volumeMounts.all(m, has(self.volumes) && self.volumes.exists(v, v.name == m.name)))",message="spec.pods.initContainers mounts a volume that none of spec.pods.volumes is; add the volume, or correct the name. The volumes of PostgreSQL can't be mounted"
// +kubebuilder:validation:XValidation:rule="!has(self.containers) || !has(self.initContainers) || !self.containers.exists(c, self.initContainers.exists(i, i.name == c.name))",message="spec.pods.containers and spec.pods.initContainers have a name in common; give each container its own"
type Pods struct {
	PodMetadata `json:",inline"`
	// Env has environment variables for PostgreSQL and its agent, and for the Jobs of the cluster.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(e, !e.name.startsWith('PG') && !e.name.startsWith('HOWDAH_') && !e.name.startsWith('POD_') && !e.name.startsWith('KUBERNETES_') && e.name != 'NODE_NAME')",message="spec.pods.env can't set PG*, HOWDAH_*, POD_*, KUBERNETES_* and NODE_NAME, which belong to PostgreSQL, Howdah and Kubernetes; remove them. Parameters of PostgreSQL are in spec.postgresql.parameters"
	Env []EnvVar `json:"env,omitempty"`
	// Volumes for PostgreSQL and for the containers below.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Volumes []PodVolume `json:"volumes,omitempty"`
	// VolumeMounts of the PostgreSQL container, outside of the paths that Howdah mounts.
	// +optional
	// +listType=map
	// +listMapKey=mountPath
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(m, ['/dev', '/etc/howdah', '/etc/passwd', '/proc', '/run/howdah', '/run/postgresql', '/run/secrets/kubernetes.io', '/sys', '/tmp', '/var/lib/howdah', '/var/lib/howdah-wal', '/var/run/howdah', '/var/run/postgresql', '/var/run/secrets/kubernetes.io'].all(p, m.mountPath != p && !m.mountPath.startsWith(p + '/') && !p.startsWith(m.mountPath + '/')))",message="spec.pods.volumeMounts has a path that Howdah or Kubernetes mounts itself, or that contains one: choose another one, such as /mnt/dictionaries"
	VolumeMounts []PodVolumeMount `json:"volumeMounts,omitempty"`
	// Containers beside PostgreSQL, such as an exporter of metrics. They share its network, reach it at localhost, and have
	// none of its volumes and Secrets.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Containers []PodContainer `json:"containers,omitempty"`
	// InitContainers run one after the other before PostgreSQL starts.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	InitContainers []PodContainer `json:"initContainers,omitempty"`
}

// PodMetadata is what all pods of a cluster or a pooler have in addition.
type PodMetadata struct {
	// Labels of the pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('howdah.dev/') && !k.startsWith('batch.kubernetes.io/') && !k.startsWith('statefulset.kubernetes.io/') && !k.startsWith('apps.kubernetes.io/') && !(k in ['app.kubernetes.io/component', 'app.kubernetes.io/managed-by', 'controller-uid', 'job-name', 'controller-revision-hash', 'pod-template-hash']))",message="spec.pods.labels has a label that Howdah or Kubernetes sets itself; remove it"
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 317 && k.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$') && self[k].matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$'))",message="spec.pods.labels must have names such as team or example.com/team, and values of letters, digits, '-', '_' and '.'"
	Labels map[string]LabelValue `json:"labels,omitempty"`
	// Annotations of the pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('howdah.dev/') && !k.startsWith('container.apparmor.security.beta.kubernetes.io/'))",message="spec.pods.annotations can't set annotations of Howdah or AppArmor profiles; remove those that begin with howdah.dev/ or container.apparmor.security.beta.kubernetes.io/"
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 317 && k.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="spec.pods.annotations must have names such as team or example.com/team"
	Annotations map[string]string `json:"annotations,omitempty"`
	// ServiceAccountAnnotations are annotations of the ServiceAccounts of the pods, such as eks.amazonaws.com/role-arn.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('howdah.dev/') && !k.startsWith('kubernetes.io/'))",message="spec.pods.serviceAccountAnnotations can't set annotations that begin with howdah.dev/ or kubernetes.io/; remove them"
	ServiceAccountAnnotations map[string]string `json:"serviceAccountAnnotations,omitempty"`
	// RuntimeClassName is the RuntimeClass of the pods, such as gvisor.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	RuntimeClassName string `json:"runtimeClassName,omitempty"`
}

// PodContainer is a container under the restricted pod security profile: as the user of PostgreSQL's container, with a read-only root
// filesystem, without capabilities, and without the token of the pod's ServiceAccount.
type PodContainer struct {
	// Name of the container.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && !(self in ['agent', 'install-agent', 'postgres', 'worker'])",message="the name of a container must be a DNS label such as metrics, and not agent, install-agent, postgres or worker, which are Howdah's"
	Name string `json:"name"`
	// Image of the container.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image"`
	// Command instead of the entrypoint of the image.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Command []string `json:"command,omitempty"`
	// Args of the command, or of the entrypoint of the image.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Args []string `json:"args,omitempty"`
	// Env has environment variables of the container.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Env []EnvVar `json:"env,omitempty"`
	// Ports that the container listens on.
	// +optional
	// +listType=map
	// +listMapKey=containerPort
	// +kubebuilder:validation:MaxItems=8
	Ports []PodPort `json:"ports,omitempty"`
	// Resources of the container.
	// +optional
	Resources Resources `json:"resources,omitempty"`
	// VolumeMounts of the container.
	// +optional
	// +listType=map
	// +listMapKey=mountPath
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(m, ['/run/secrets/kubernetes.io', '/var/run/secrets/kubernetes.io'].all(p, m.mountPath != p && !m.mountPath.startsWith(p + '/') && !p.startsWith(m.mountPath + '/')))",message="a container can't mount a volume where Kubernetes has the token of a ServiceAccount: choose another path, such as /mnt/data"
	VolumeMounts []PodVolumeMount `json:"volumeMounts,omitempty"`
}

// PodPort is a port that a container listens on.
type PodPort struct {
	// Name of the port, such as metrics.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && !(self in ['postgres', 'agent'])",message="the name of a port must have letters, digits and '-', such as metrics, and must not be postgres or agent, which are Howdah's"
	Name string `json:"name,omitempty"`
	// ContainerPort is its number. Containers of a pod share their ports.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="!(self in [5432, 8443, 9187])",message="5432 is the port of PostgreSQL, and 8443 and 9187 are those of the agent: choose another containerPort"
	ContainerPort int32 `json:"containerPort"`
}

// EnvVar is an environment variable.
// +kubebuilder:validation:XValidation:rule="!has(self.value) || !has(self.valueFrom)",message="an environment variable has either a value or a valueFrom; remove one of them"
type EnvVar struct {
	// Name of the variable.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_.-]*$`
	Name string `json:"name"`
	// Value of the variable.
	// +optional
	Value string `json:"value,omitempty"`
	// ValueFrom says where the value is.
	// +optional
	ValueFrom *EnvSource `json:"valueFrom,omitempty"`
}

// EnvSource is where the value of an environment variable is.
// +kubebuilder:validation:XValidation:rule="[has(self.secretKeyRef), has(self.configMapKeyRef), has(self.fieldRef)].filter(x, x).size() == 1",message="valueFrom must have exactly one of secretKeyRef, configMapKeyRef and fieldRef"
type EnvSource struct {
	// SecretKeyRef is a key of a Secret.
	// +optional
	SecretKeyRef *KeyReference `json:"secretKeyRef,omitempty"`
	// ConfigMapKeyRef is a key of a ConfigMap.
	// +optional
	ConfigMapKeyRef *KeyReference `json:"configMapKeyRef,omitempty"`
	// FieldRef is a field of the pod.
	// +optional
	FieldRef *FieldReference `json:"fieldRef,omitempty"`
}

// KeyReference is a key of a Secret or ConfigMap in the same namespace.
type KeyReference struct {
	// Name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Key in it.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key"`
	// Optional: true leaves the variable out where there is no such key.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// FieldReference is a field of the pod.
type FieldReference struct {
	// FieldPath is the field, such as metadata.name, status.podIP or spec.nodeName.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	FieldPath string `json:"fieldPath"`
}

// PodVolume is a volume for the containers of a pod. There are no host paths, and no tokens of ServiceAccounts.
// +kubebuilder:validation:XValidation:rule="[has(self.secret), has(self.configMap), has(self.projected), has(self.emptyDir), has(self.csi), has(self.ephemeral)].filter(x, x).size() == 1",message="each of spec.pods.volumes must have exactly one of secret, configMap, projected, emptyDir, csi and ephemeral"
type PodVolume struct {
	// Name of the volume, by which volumeMounts refer to it.
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Secret in the same namespace.
	// +optional
	Secret *SecretVolume `json:"secret,omitempty"`
	// ConfigMap in the same namespace.
	// +optional
	ConfigMap *ConfigMapVolume `json:"configMap,omitempty"`
	// Projected is several Secrets and ConfigMaps in one folder.
	// +optional
	Projected *ProjectedVolume `json:"projected,omitempty"`
	// EmptyDir lives as long as the pod.
	// +optional
	EmptyDir *EmptyDirVolume `json:"emptyDir,omitempty"`
	// CSI is an ephemeral volume of a CSI driver, such as secrets-store.csi.k8s.io.
	// +optional
	CSI *CSIVolume `json:"csi,omitempty"`
	// Ephemeral is a PersistentVolumeClaim that is created and deleted with the pod.
	// +optional
	Ephemeral *EphemeralVolume `json:"ephemeral,omitempty"`
}

// SecretVolume has the keys of a Secret as files.
type SecretVolume struct {
	// SecretName is the name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`
	// Items are the keys; by default, all of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Items []KeyPath `json:"items,omitempty"`
	// Optional: true lets pods start without it.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// ConfigMapVolume has the keys of a ConfigMap as files; in a projected volume, those of a Secret or ConfigMap.
type ConfigMapVolume struct {
	// Name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Items are the keys; by default, all of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Items []KeyPath `json:"items,omitempty"`
	// Optional: true lets pods start without it.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// KeyPath is the file that has a key.
type KeyPath struct {
	// Key in the Secret or ConfigMap.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
	// Path of the file, relative to the volume.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Path string `json:"path"`
}

// ProjectedVolume is several Secrets and ConfigMaps in one folder.
type ProjectedVolume struct {
	// Sources of the volume.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Sources []ProjectedSource `json:"sources"`
}

// ProjectedSource is a part of a projected volume.
// +kubebuilder:validation:XValidation:rule="has(self.secret) != has(self.configMap)",message="each of the sources of a projected volume must have exactly one of secret and configMap"
type ProjectedSource struct {
	// Secret in the same namespace.
	// +optional
	Secret *ConfigMapVolume `json:"secret,omitempty"`
	// ConfigMap in the same namespace.
	// +optional
	ConfigMap *ConfigMapVolume `json:"configMap,omitempty"`
}

// EmptyDirVolume is an empty folder.
type EmptyDirVolume struct {
	// Medium: Memory keeps it in memory, which counts toward the limits of the containers.
	// +optional
	// +kubebuilder:validation:Enum=Memory
	Medium string `json:"medium,omitempty"`
	// SizeLimit of the folder. A pod that exceeds it is evicted.
	// +optional
	SizeLimit *resource.Quantity `json:"sizeLimit,omitempty"`
}

// CSIVolume is an ephemeral volume of a CSI driver.
type CSIVolume struct {
	// Driver is the name of the driver.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Driver string `json:"driver"`
	// ReadOnly volume.
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`
	// VolumeAttributes are passed to the driver.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	VolumeAttributes map[string]string `json:"volumeAttributes,omitempty"`
}

// EphemeralVolume is a PersistentVolumeClaim that is created and deleted with the pod.
type EphemeralVolume struct {
	// Size of the volume.
	Size resource.Quantity `json:"size"`
	// StorageClassName of the volume. By default, that of the Kubernetes cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// PodVolumeMount is where a container has a volume.
type PodVolumeMount struct {
	// Name of one of spec.pods.volumes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	Name string `json:"name"`
	// MountPath is a folder, such as /mnt/dictionaries.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^(/[A-Za-z0-9_+][A-Za-z0-9._+-]*)+$')",message="mountPath must be an absolute path without special characters, such as /mnt/dictionaries"
	MountPath string `json:"mountPath"`
	// ReadOnly mount.
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`
	// SubPath is a file or folder in the volume. By default, all of it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_+][A-Za-z0-9._+-]*(/[A-Za-z0-9_+][A-Za-z0-9._+-]*)*$')",message="subPath must be a relative path without special characters, such as dictionaries/english.stop"
	SubPath string `json:"subPath,omitempty"`
}
