package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/protocol"
)

// Components, the values of v1alpha1.LabelComponent. What Writes touches a data volume.
const (
	ComponentInstance      = "instance"
	ComponentPooler        = "pooler"
	ComponentInit          = "init"
	ComponentBackup        = "backup"
	ComponentRestore       = "restore"
	ComponentUpgrade       = "upgrade"
	ComponentUpgradeCheck  = "upgrade-check"
	ComponentImage         = "image"
	ComponentInspection    = "inspection"
	ComponentImportRelease = "import-release"
	ComponentFailoverDrill = "failover-drill"
	ComponentTableRestore  = "table-restore"
)

// WritingComponents are those whose pods write to a data volume; one of them at a time.
var WritingComponents = []string{ComponentInstance, ComponentInit, ComponentRestore, ComponentUpgrade}

// Job describes one Job of the agent. Its ConfigMap, ServiceAccount, Role and RoleBinding have its name.
type Job struct {
	Name      string
	Owner     client.Object
	Cluster   string
	Component string
	// Image to run in; the Agent is brought in, unless it is the agent's own image.
	Image string
	Agent Agent
	// Args of the agent, such as backup.
	Args []string
	// Spec is marshalled into job.json.
	Spec any
	// Inline: it stands in an annotation of the pod, so that there is no ConfigMap to make, to watch and to remove. For a Spec
	// of a fixed, small size.
	Inline bool
	// Progress is the object whose status.progress the pod may patch; nil gives the pod no access to the API server. One that is a
	// ConfigMap is created with the Job, empty, and the pod may patch nothing else: for an object whose status others act on. The Job
	// has to be Inline then.
	Progress *agentapi.Object
	// ClusterSpec says where pods of the cluster run, how their images are pulled, and what they all have; nil: the cluster doesn't exist.
	ClusterSpec *v1alpha1.PostgresClusterSpec
	// Node that the pod must run on; empty leaves it to the scheduler.
	Node string
	// Beside is the instance on that Node; nil: nothing is known of it.
	Beside *corev1.Pod
	// Replaceable: it writes nothing that lasts, so that another may run beside its pod if the node of that is lost.
	Replaceable bool
	// Enduring: it lives for as long as its owner wants it to, so however many of its pods have failed is no reason to give up.
	Enduring bool
	// DataClaim is mounted at agentapi.VolumeDir, and the claim of the same instance's WAL at agentapi.WALVolumeDir, if the cluster has WAL volumes.
	DataClaim    string
	DataReadOnly bool
	// OldImage is at agentapi.OldImageDir: mounted if Jobs mount images, else what a container of that image has copied, which takes a few
	// seconds, in which nobody is served.
	OldImage string
	// S3Secret, KeysSecret, ConnectionConfigMap and ClientTLSSecret are mounted where they are named.
	S3Secret, KeysSecret, ConnectionConfigMap, ClientTLSSecret string
	// Secrets are mounted below agentapi.SecretsDir, of each only the keys that are named. What isn't there is left out.
	Secrets map[string][]string
	// SQL is mounted where agentapi.SQLPath says. What isn't there is left out.
	SQL       []agentapi.SQLFile
	Resources corev1.ResourceRequirements
	// Limit is how long it may take before Kubernetes ends it; zero: there is no limit. It holds while the controller is away.
	Limit time.Duration
}

// Ensure makes what is missing of the Job, the Job itself last. It is repeatable at any point; what the owner has already is left.
// What has one of the names and is somebody else's is never used: see Taken.
func (j Job) Ensure(ctx context.Context, writer client.Client) error {
	objects, err := j.objects()
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := controllerutil.SetControllerReference(j.Owner, object, writer.Scheme()); err != nil {
			return fmt.Errorf("own %s: %w", object.GetName(), err)
		}
		if err := create(ctx, writer, j.Owner, object); err != nil {
			return fmt.Errorf("create %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

func (j Job) objects() ([]client.Object, error) {
	spec, err := json.Marshal(j.Spec)
	if err != nil {
		return nil, fmt.Errorf("marshal job.json: %w", err)
	}
	var objects []client.Object
	if !j.Inline {
		objects = append(objects, &corev1.ConfigMap{
			ObjectMeta: j.meta(),
			Data:       map[string]string{filepath.Base(agentapi.JobFile): string(spec)},
		})
	}
	if j.Progress != nil {
		objects = append(objects, j.identity()...)
	}
	if j.reportsApart() {
		objects = append(objects, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: j.Progress.Name, Namespace: j.Owner.GetNamespace(), Labels: j.labels()}})
	}
	job := j.job()
	if j.Inline {
		metav1.SetMetaDataAnnotation(&job.Spec.Template.ObjectMeta, annotationSpec, string(spec))
	}
	return append(objects, job), nil
}

// annotationSpec of a pod is what job.json has, where that is inline.
const annotationSpec = "howdah.dev/job"

// annotationAgent of the pods of a Job that is Enduring is the image of the agent, as it was asked for: what a webhook makes of it doesn't matter.
const annotationAgent = "howdah.dev/agent"

// HasAgent says whether a Job that is Enduring and exists was created with the agent of this one.
func (j Job) HasAgent(live *batchv1.Job) bool {
	return live.Spec.Template.Annotations[annotationAgent] == j.Agent.Image
}

// InlineSpec is job.json of a Job that exists, where that is inline; nil: it has none.
func InlineSpec(job *batchv1.Job) []byte {
	if spec, has := job.Spec.Template.Annotations[annotationSpec]; has {
		return []byte(spec)
	}
	return nil
}

// specVolume has job.json.
func (j Job) specVolume() corev1.VolumeSource {
	if !j.Inline {
		return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: j.Name}}}
	}
	return corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{
		Path:     filepath.Base(agentapi.JobFile),
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations['" + annotationSpec + "']"},
	}}}}
}

func (j Job) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: j.Name, Namespace: j.Owner.GetNamespace(), Labels: j.labels()}
}

func (j Job) labels() map[string]string {
	return map[string]string{
		v1alpha1.LabelCluster:   j.Cluster,
		v1alpha1.LabelComponent: j.Component,
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBy,
	}
}

// reportsApart: progress goes into a ConfigMap.
func (j Job) reportsApart() bool {
	return j.Progress != nil && j.Progress.Kind == agentapi.KindConfigMap
}

// identity may patch the status of one object, or one ConfigMap, and nothing else.
func (j Job) identity() []client.Object {
	rule := rbacv1.PolicyRule{
		APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{j.Progress.Resource + "/status"},
		ResourceNames: []string{j.Progress.Name}, Verbs: []string{"patch"},
	}
	if j.reportsApart() {
		rule.APIGroups, rule.Resources = []string{""}, []string{j.Progress.Resource}
	}
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: j.account(), AutomountServiceAccountToken: ptr.To(true)},
		&rbacv1.Role{ObjectMeta: j.meta(), Rules: []rbacv1.PolicyRule{rule}},
		&rbacv1.RoleBinding{
			ObjectMeta: j.meta(),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: j.Name},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: j.Name, Namespace: j.Owner.GetNamespace()}},
		},
	}
}

// deadline is the Limit in seconds; nil: there is none.
func (j Job) deadline() *int64 {
	if j.Limit <= 0 {
		return nil
	}
	return ptr.To(max(1, int64(j.Limit/time.Second)))
}

// attempts are how many pods may fail.
func (j Job) attempts() int32 {
	if j.Enduring {
		return math.MaxInt32
	}
	return 4
}

func (j Job) job() *batchv1.Job {
	meta := j.meta()
	metav1.SetMetaDataAnnotation(&meta, annotationPlacement, j.placement())
	template := j.template()
	metav1.SetMetaDataAnnotation(&template, annotationPodDigest, j.podDigest())
	if j.Enduring {
		metav1.SetMetaDataAnnotation(&template, annotationAgent, j.Agent.Image)
	}
	return &batchv1.Job{
		ObjectMeta: meta,
		Spec: batchv1.JobSpec{
			BackoffLimit: ptr.To(j.attempts()),
			// A pod on a lost node is replaced only when it is known to be gone: two must never write at once.
			PodReplacementPolicy:  ptr.To(batchv1.Failed),
			ActiveDeadlineSeconds: j.deadline(),
			PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
				{
					Action: batchv1.PodFailurePolicyActionFailJob,
					OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
						ContainerName: ptr.To(WorkerContainer), Operator: batchv1.PodFailurePolicyOnExitCodesOpIn,
						Values: []int32{agentapi.ExitFinal},
					},
				}, {
					// Evicted, drained or preempted: not the work's fault.
					Action: batchv1.PodFailurePolicyActionIgnore,
					OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{
						Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
					}},
				},
			}},
			Template: corev1.PodTemplateSpec{ObjectMeta: template, Spec: j.pod()},
		},
	}
}

func (j Job) pod() corev1.PodSpec {
	volumes, mounts := ScratchVolumes()
	add := func(name, path string, readOnly bool, source corev1.VolumeSource) {
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: source})
		mounts = append(mounts, corev1.VolumeMount{Name: name, MountPath: path, ReadOnly: readOnly})
	}
	secret := func(name string) corev1.VolumeSource {
		return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name, DefaultMode: ptr.To[int32](0o440)}}
	}
	configMap := func(name string) corev1.VolumeSource {
		return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
	}
	add("job", filepath.Dir(agentapi.JobFile), true, j.specVolume())
	for _, c := range j.claims() {
		add(c.volume, c.path, j.DataReadOnly, corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.name},
		})
	}
	if j.S3Secret != "" {
		add("s3", agentapi.S3Dir, true, secret(j.S3Secret))
	}
	if j.KeysSecret != "" {
		add("keys", agentapi.KeysDir, true, secret(j.KeysSecret))
	}
	if j.ClientTLSSecret != "" {
		add("client-tls", agentapi.ClientTLSDir, true, secret(j.ClientTLSSecret))
	}
	if j.ConnectionConfigMap != "" {
		add("connection", agentapi.ConnectionDir, true, configMap(j.ConnectionConfigMap))
	}
	for i, name := range slices.Sorted(maps.Keys(j.Secrets)) {
		add(fmt.Sprintf("secret-%d", i), filepath.Join(agentapi.SecretsDir, name), true, keptSecret(name, j.Secrets[name]))
	}
	for i, file := range j.SQL {
		add(fmt.Sprintf("sql-%d", i), filepath.Dir(agentapi.SQLPath(i, file)), true, keptKey(file))
	}
	if j.OldImage != "" {
		add(oldImageVolume, agentapi.OldImageDir, true, j.oldImage())
	}
	pod := corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, SecurityContext: PodSecurity(), Volumes: volumes,
		AutomountServiceAccountToken: ptr.To(j.Progress != nil), EnableServiceLinks: ptr.To(false),
		TerminationGracePeriodSeconds: ptr.To[int64](30),
		Containers:                    []corev1.Container{j.container(mounts)},
	}
	j.fit(&pod)
	if j.Progress != nil {
		pod.ServiceAccountName = j.Name
	}
	if j.binary() == agentapi.AgentPath {
		Agent{Image: j.Agent.Image, Mounted: j.mountsImages()}.Bring(&pod)
		if j.ClusterSpec != nil {
			BringExtensions(&pod, j.ClusterSpec)
		}
	}
	if j.OldImage != "" && !j.mountsImages() {
		pod.InitContainers = append(pod.InitContainers, j.copyOldImage())
	}
	return pod
}

// claim that is mounted.
type claim struct{ volume, path, name string }

// claims are those of the instance whose data the Job reads or writes.
func (j Job) claims() []claim {
	if j.DataClaim == "" {
		return nil
	}
	claims := []claim{{"data", agentapi.VolumeDir, j.DataClaim}}
	if j.ClusterSpec != nil && j.ClusterSpec.Storage.WAL != nil {
		claims = append(claims, claim{"wal", agentapi.WALVolumeDir, protocol.WALClaimName(protocol.InstanceOf(j.DataClaim))})
	}
	return claims
}

// keptSecret is a Secret of which only some keys are mounted, if they are there.
func keptSecret(name string, keys []string) corev1.VolumeSource {
	source := &corev1.SecretVolumeSource{SecretName: name, DefaultMode: ptr.To[int32](0o440), Optional: ptr.To(true)}
	for _, key := range keys {
		source.Items = append(source.Items, corev1.KeyToPath{Key: key, Path: key})
	}
	return corev1.VolumeSource{Secret: source}
}

// keptKey is a key of a ConfigMap, if it is there.
func keptKey(file agentapi.SQLFile) corev1.VolumeSource {
	return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: file.ConfigMap}, Optional: ptr.To(true),
		Items: []corev1.KeyToPath{{Key: file.Key, Path: file.Key}},
	}}
}

func (j Job) container(mounts []corev1.VolumeMount) corev1.Container {
	env := PodIdentity()
	if j.ClusterSpec != nil {
		env = append(env, Environment(j.ClusterSpec.Pods.Env)...) // a proxy on the way to the object store, for example
	}
	return corev1.Container{
		Name: WorkerContainer, Image: j.Image, Command: append([]string{j.binary()}, j.Args...), Env: env,
		SecurityContext: ContainerSecurity(), Resources: j.Resources, VolumeMounts: mounts,
	}
}

// binary is where the container has the agent.
func (j Job) binary() string {
	if j.Image == j.Agent.Image {
		return inImage
	}
	return agentapi.AgentPath
}
