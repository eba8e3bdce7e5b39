//go:build integration

// Package boundaries tries to break out with the account of each controller, under the roles and the admission policies that the
// chart installs, against a real API server.
package boundaries

import (
	"context"
	"maps"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
	"howdah.dev/howdah/test/testkit/apiserver"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

const agentImage = "registry.local/howdah/agent:0.1.0"

// controller is what a controller creates when all is well.
type controller struct {
	owner client.Object
	// job is the name of a Job that it creates, and account one of an account that it creates.
	job, account, component string
	progress                *agentapi.Object
}

func controllers(namespace string) map[string]controller {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "u"}
	}
	progress := func(resource, name string) *agentapi.Object { return &agentapi.Object{Resource: resource, Name: name} }
	return map[string]controller{
		"db-controller":      {&v1alpha1.PostgresCluster{ObjectMeta: meta("shop")}, "shop-init", "shop-instance", workload.ComponentInit, nil},
		"backup-controller":  {&v1alpha1.Backup{ObjectMeta: meta("b")}, "b-backup-2", "b-backup-2", workload.ComponentBackup, progress("backups", "b")},
		"restore-controller": {&v1alpha1.Restore{ObjectMeta: meta("r")}, "r-restore", "r-restore", workload.ComponentRestore, progress("restores", "r")},
		"upgrade-controller": {&v1alpha1.Upgrade{ObjectMeta: meta("u")}, "u-upgrade", "u-upgrade", workload.ComponentUpgrade, progress("upgrades", "u")},
		"drill-controller": {
			&v1alpha1.FailoverDrill{ObjectMeta: meta("d")}, "d-failover-drill", "d-failover-drill", workload.ComponentFailoverDrill, progress("failoverdrills", "d"),
		},
	}
}

// normal is a Job as the controller creates it.
func (c controller) normal() workload.Job {
	job := workload.Job{
		Name: c.job, Owner: c.owner, Cluster: "shop", Component: c.component, Image: "postgres:17", OldImage: "postgres:15",
		Agent: workload.Agent{Image: agentImage}, Args: []string{"work"}, Spec: map[string]string{}, Progress: c.progress, Inline: c.progress == nil,
		Node: "w1", DataClaim: "data-shop-0", S3Secret: "s3", KeysSecret: "keys", ConnectionConfigMap: "shop-connection", ClientTLSSecret: "shop-backup",
		Secrets: map[string][]string{"shop-app": {"password"}},
	}
	switch c.component {
	case workload.ComponentUpgrade:
		job.S3Secret, job.KeysSecret, job.ClientTLSSecret, job.Secrets = "", "", "shop-upgrade", nil
	case workload.ComponentFailoverDrill:
		job.S3Secret, job.KeysSecret, job.ClientTLSSecret, job.Secrets, job.DataClaim = "", "", "shop-failover-drill", nil, ""
		job.Inline, job.ConnectionConfigMap = true, ""
	}
	if c.needsNoServer() {
		job.Image, job.OldImage = agentImage, ""
	}
	return job
}

// needsNoServer: the Job runs in the image of the agent.
func (c controller) needsNoServer() bool {
	return c.component == workload.ComponentBackup || c.component == workload.ComponentFailoverDrill
}

// readsSecrets says whether the roles of a controller let it read Secrets.
func readsSecrets(name string) bool {
	return name != "upgrade-controller" && name != "drill-controller"
}

// made creates the normal Job with all that belongs to it, in each way that it gets the agent, and returns the last one for
// others to be made like it.
func (c controller) made(t *testing.T, as client.Client) *batchv1.Job {
	t.Helper()
	admin, job := apiserver.Client(t), &batchv1.Job{}
	for _, mounted := range []bool{false, true} {
		normal := c.normal()
		if normal.Agent.Mounted = mounted; !mounted {
			normal.OldImage = ""
		}
		if err := normal.Ensure(t.Context(), as); err != nil {
			t.Fatalf("its own Job is refused: %v", err)
		}
		job = &batchv1.Job{}
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: c.owner.GetNamespace(), Name: c.job}, job); err != nil {
			t.Fatal(err)
		}
		if err := as.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			t.Fatalf("it can't delete its own Job: %v", err)
		}
	}
	job.ObjectMeta = metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name, Labels: job.Labels, OwnerReferences: job.OwnerReferences}
	job.Spec.Selector, job.Spec.Template.Labels = nil, nil
	return job
}

func TestTheDBControllerCreatesAJobForEachOfItsSteps(t *testing.T) {
	apiserver.InstallBoundaries(t)
	c := controllers(apiserver.Namespace(t, apiserver.Client(t)))["db-controller"]
	as := apiserver.ClientAs(t, "db-controller")
	for _, name := range []string{"shop-init", "shop-import-release", "shop-image", "shop-volume-0"} {
		t.Run(name, func(t *testing.T) {
			c.job = name
			c.made(t, as)
		})
	}
}

func TestEachControllerCreatesItsOwnJobsAndNoOthers(t *testing.T) {
	apiserver.InstallBoundaries(t)
	namespace := apiserver.Namespace(t, apiserver.Client(t))
	for name, c := range controllers(namespace) {
		as := apiserver.ClientAs(t, name)
		template, all := c.made(t, as), breakouts()
		if !readsSecrets(name) {
			maps.Copy(all, thefts())
		}
		if c.needsNoServer() {
			delete(all, "another agent, mounted") // it mounts none
			all["a server"] = func(j *batchv1.Job) {
				j.Spec.Template.Spec.Containers[0].Command[0], j.Spec.Template.Spec.Containers[0].Image = agentapi.AgentPath, "evil/postgres:17"
			}
		}
		for what, change := range all {
			t.Run(name+"/"+what, func(t *testing.T) {
				job := template.DeepCopy()
				change(job)
				refused(t, client.NewDryRunClient(as).Create(t.Context(), job))
			})
		}
	}
}

// Policies and webhooks of a Kubernetes cluster often write the default profiles into each container.
func TestAJobMayNameTheDefaultProfilesOfItsNode(t *testing.T) {
	apiserver.InstallBoundaries(t)
	for name, c := range controllers(apiserver.Namespace(t, apiserver.Client(t))) {
		as := apiserver.ClientAs(t, name)
		job := c.made(t, as)
		pod := &job.Spec.Template.Spec
		pod.SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
		for i := range pod.Containers {
			pod.Containers[i].SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
			pod.Containers[i].SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
		}
		if err := client.NewDryRunClient(as).Create(t.Context(), job); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The db-controller tries an image in a Job of another name before an instance runs in it.
func TestTheDBControllerTriesImages(t *testing.T) {
	apiserver.InstallBoundaries(t)
	trial := controllers(apiserver.Namespace(t, apiserver.Client(t)))["db-controller"].normal()
	trial.Name, trial.Component, trial.OldImage, trial.DataClaim, trial.Node = "shop-image", workload.ComponentImage, "", "", ""
	if err := trial.Ensure(t.Context(), apiserver.ClientAs(t, "db-controller")); err != nil {
		t.Errorf("its own Job is refused: %v", err)
	}
}

// refused fails the test unless the API server has refused a request on purpose.
func refused(t *testing.T, err error) {
	t.Helper()
	switch {
	case err == nil:
		t.Error("it was accepted")
	case !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err):
		t.Errorf("it failed for another reason: %v", err)
	default:
		t.Log(err)
	}
}

// breakouts are what somebody would make of a Job who has the account of a controller.
func breakouts() map[string]func(*batchv1.Job) {
	pod := func(change func(*corev1.PodSpec)) func(*batchv1.Job) {
		return func(j *batchv1.Job) { change(&j.Spec.Template.Spec) }
	}
	container := func(change func(*corev1.Container)) func(*batchv1.Job) {
		return pod(func(p *corev1.PodSpec) { change(&p.Containers[0]) })
	}
	volume := func(source corev1.VolumeSource) func(*batchv1.Job) {
		return pod(func(p *corev1.PodSpec) { p.Volumes = append(p.Volumes, corev1.Volume{Name: "v", VolumeSource: source}) })
	}
	return map[string]func(*batchv1.Job){
		"privileged with a host path in kube-system": func(j *batchv1.Job) {
			j.Namespace = metav1.NamespaceSystem
			volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}})(j)
			container(func(c *corev1.Container) { c.SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)} })(j)
		},
		"its own in kube-system": func(j *batchv1.Job) { j.Namespace = metav1.NamespaceSystem },
		"host path":              volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}),
		"token of another audience": volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{
			ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"},
		}}}}),
		"somebody else's volume": volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "other"}}),
		"privileged": container(func(c *corev1.Container) {
			c.SecurityContext.Privileged, c.SecurityContext.AllowPrivilegeEscalation = ptr.To(true), ptr.To(true)
		}),
		"a capability": container(func(c *corev1.Container) { c.SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_ADMIN"} }),
		"root in the container": container(func(c *corev1.Container) {
			c.SecurityContext.RunAsUser, c.SecurityContext.RunAsNonRoot = ptr.To[int64](0), ptr.To(false)
		}),
		"no security context": container(func(c *corev1.Container) { c.SecurityContext = nil }),
		"a writable root":     container(func(c *corev1.Container) { c.SecurityContext.ReadOnlyRootFilesystem = ptr.To(false) }),
		"another program":     container(func(c *corev1.Container) { c.Command = []string{"/bin/sh", "-c", "id"} }),
		"the image's program": container(func(c *corev1.Container) { c.Command = nil }),
		"another agent":       container(func(c *corev1.Container) { c.Command[0], c.Image = "/agent", "evil/agent:1" }),
		"another agent, mounted": pod(func(p *corev1.PodSpec) {
			for i := range p.Volumes {
				if v := &p.Volumes[i]; v.Name == "agent" {
					v.Image.Reference = "registry.local/howdah/agent-evil:1"
				}
			}
		}),
		"a second container": pod(func(p *corev1.PodSpec) { p.Containers = append(p.Containers, corev1.Container{Name: "x", Image: "x"}) }),
		"root": pod(func(p *corev1.PodSpec) {
			p.SecurityContext.RunAsUser, p.SecurityContext.RunAsNonRoot = ptr.To[int64](0), ptr.To(false)
		}),
		"no seccomp": pod(func(p *corev1.PodSpec) { p.SecurityContext.SeccompProfile = nil }),
		"no seccomp in the container": container(func(c *corev1.Container) {
			c.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
		}),
		"no AppArmor": pod(func(p *corev1.PodSpec) {
			p.SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
		}),
		"no AppArmor in the container": container(func(c *corev1.Container) {
			c.SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
		}),
		"the node's network": pod(func(p *corev1.PodSpec) { p.HostNetwork = true }),
		"the node's pids":    pod(func(p *corev1.PodSpec) { p.HostPID = true }),
		"a node of its own":  pod(func(p *corev1.PodSpec) { p.NodeName = "control-plane" }),
		"another account":    pod(func(p *corev1.PodSpec) { p.ServiceAccountName, p.DeprecatedServiceAccount = "admin", "admin" }),
		"the default token": pod(func(p *corev1.PodSpec) {
			p.ServiceAccountName, p.DeprecatedServiceAccount, p.AutomountServiceAccountToken = "", "", ptr.To(true)
		}),
		"the name of another account": func(j *batchv1.Job) {
			j.Name, j.Spec.Template.Spec.ServiceAccountName, j.Spec.Template.Spec.DeprecatedServiceAccount = "admin", "admin", "admin"
		},
		"without the label of Howdah": func(j *batchv1.Job) { j.Labels, j.OwnerReferences = nil, nil },
	}
}

// thefts are what a controller without a right to read Secrets would make of a Job to read one.
func thefts() map[string]func(*batchv1.Job) {
	variable := func(change func(*corev1.Container)) func(*batchv1.Job) {
		return func(j *batchv1.Job) { change(&j.Spec.Template.Spec.Containers[0]) }
	}
	mounted := func(name string) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			source := corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}
			j.Spec.Template.Spec.Volumes = append(j.Spec.Template.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: source})
		}
	}
	named := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	return map[string]func(*batchv1.Job){
		"anybody's Secret":         mounted("theirs"),
		"the keys of the CA":       mounted("shop-ca"),
		"the superuser's password": mounted("shop-superuser"),
		"the instances' Secret":    mounted("shop-instance"),
		"anybody's Secret, all of it": variable(func(c *corev1.Container) {
			c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: named("theirs")}}}
		}),
		"anybody's Secret, as a variable": variable(func(c *corev1.Container) {
			c.Env = append(c.Env, corev1.EnvVar{Name: "A", ValueFrom: &corev1.EnvVarSource{
				SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: named("theirs"), Key: "a"},
			}})
		}),
	}
}

// A Job of an Upgrade has the variables of spec.pods. The db-controller says in the Role of the instances which Secrets those come from, as the
// upgrade-controller may read none.
func TestTheUpgradeControllerUsesTheSecretsThatAClusterNamesForItsPods(t *testing.T) {
	apiserver.InstallBoundaries(t)
	namespace := apiserver.Namespace(t, apiserver.Client(t))
	named := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop", UID: "u"}}
	from := &v1alpha1.EnvSource{SecretKeyRef: &v1alpha1.KeyReference{Name: "license", Key: "key"}}
	another := &v1alpha1.EnvSource{SecretKeyRef: &v1alpha1.KeyReference{Name: "proxy", Key: "url"}}
	named.Spec.Pods.Env = []v1alpha1.EnvVar{{Name: "LICENSE", ValueFrom: from}, {Name: "A", Value: "b"}, {Name: "HTTPS_PROXY", ValueFrom: another}, {Name: "B", ValueFrom: another}}
	job := controllers(namespace)["upgrade-controller"].normal()
	job.ClusterSpec, job.Progress, job.Inline = &named.Spec, nil, true
	as := client.NewDryRunClient(apiserver.ClientAs(t, "upgrade-controller"))
	refused(t, job.Ensure(t.Context(), as))
	db := apiserver.ClientAs(t, "db-controller")
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "shop-instance", Labels: ours()}
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: meta},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"license,proxy,proxy"}, Verbs: []string{"use"}},
		}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: meta.Name, Namespace: namespace}},
		},
	} {
		if err := db.Create(t.Context(), object); err != nil {
			t.Fatalf("%T is refused: %v", object, err)
		}
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) { // until the API server has seen the Role
		err := job.Ensure(t.Context(), as)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the Secret that the cluster names is refused: %v", err)
		}
	}
	from.SecretKeyRef.Name = "theirs"
	refused(t, job.Ensure(t.Context(), as))
}

func TestThePoolerControllerGetsAtNothingButPoolers(t *testing.T) {
	apiserver.InstallBoundaries(t)
	namespace := apiserver.Namespace(t, apiserver.Client(t))
	as := client.NewDryRunClient(apiserver.ClientAs(t, "pooler-controller"))
	pooler := func() *appsv1.Deployment {
		pod := corev1.PodSpec{ServiceAccountName: "shop-pooler", SecurityContext: workload.PodSecurity(), Containers: []corev1.Container{{
			Name: "pgbouncer", Image: "pgbouncer:1.25.1", Command: []string{agentapi.AgentPath, "pooler"}, SecurityContext: workload.ContainerSecurity(), Env: workload.PodIdentity(),
		}}}
		pod.Volumes, pod.Containers[0].VolumeMounts = workload.ScratchVolumes()
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "shop-pooler"}}})
		workload.Agent{Image: agentImage}.Bring(&pod)
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop-pooler", Labels: ours()},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: ours()}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: ours()}, Spec: pod},
			},
		}
	}
	if err := as.Create(t.Context(), pooler()); err != nil {
		t.Errorf("its own Deployment is refused: %v", err)
	}
	for _, object := range others(namespace) {
		if err := apiserver.Client(t).Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	for what, do := range ofTheDBController(namespace) {
		t.Run(what, func(t *testing.T) { refused(t, do(t.Context(), as)) })
	}
	for what, change := range thefts() {
		t.Run(what, func(t *testing.T) {
			template, stolen := &batchv1.Job{}, pooler()
			template.Spec.Template = stolen.Spec.Template
			change(template)
			stolen.Spec.Template = template.Spec.Template
			refused(t, as.Create(t.Context(), stolen))
		})
	}
}

func TestNoControllerGetsAtAccountsSecretsOrObjectsOfOthers(t *testing.T) {
	apiserver.InstallBoundaries(t)
	admin := apiserver.Client(t)
	namespace := apiserver.Namespace(t, admin)
	for _, object := range others(namespace) {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range controllers(namespace) {
		c.access(t, apiserver.ClientAs(t, name), namespace)
		as := client.NewDryRunClient(apiserver.ClientAs(t, name))
		for what, do := range c.attempts(namespace) {
			t.Run(name+"/"+what, func(t *testing.T) { refused(t, do(t.Context(), as)) })
		}
	}
}

// access creates the account that the controller gives its pods, with its Role and RoleBinding. The RoleBindings of a test need
// a Role that exists.
func (c controller) access(t *testing.T, as client.Client, namespace string) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: c.account, Labels: ours()}
	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"shop-0"}, Verbs: []string{"get", "patch"}}
	if c.progress != nil {
		rule = rbacv1.PolicyRule{
			APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{c.progress.Resource + "/status"},
			ResourceNames: []string{c.progress.Name}, Verbs: []string{"patch"},
		}
	}
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: meta},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: c.account},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: c.account, Namespace: namespace}},
		},
	} {
		if err := as.Create(t.Context(), object); err != nil {
			t.Errorf("%T is refused: %v", object, err)
		}
	}
}

// others are objects of a namespace that no controller has created, and some that the db-controller has.
func others(namespace string) []client.Object {
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	cluster := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: ours()}
	}
	return []client.Object{
		&corev1.ConfigMap{ObjectMeta: cluster("shop-config")}, &rbacv1.Role{ObjectMeta: cluster("cart-instance")}, &corev1.ServiceAccount{ObjectMeta: cluster("cart-instance")},
		&corev1.Service{ObjectMeta: cluster("shop-ro"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 5432}}}},
		&batchv1.Job{ObjectMeta: cluster("cart-init"), Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "c"}},
		}}}},
		&rbacv1.Role{ObjectMeta: named("theirs")}, &corev1.ConfigMap{ObjectMeta: named("theirs")}, &corev1.Secret{ObjectMeta: named("theirs")}, &corev1.ServiceAccount{ObjectMeta: named("theirs")},
		&corev1.Pod{ObjectMeta: named("theirs"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}},
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop-0", Labels: ours()},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}},
		},
	}
}

func ours() map[string]string {
	return map[string]string{v1alpha1.LabelCluster: "shop", v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
}

type attempt func(context.Context, client.Client) error

func (c controller) attempts(namespace string) map[string]attempt {
	create := func(object client.Object) attempt {
		return func(ctx context.Context, as client.Client) error { return as.Create(ctx, object) }
	}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "x" + c.account, Labels: ours()}
	instances := metav1.ObjectMeta{Namespace: namespace, Name: "x-instance", Labels: ours()}
	owned := *meta.DeepCopy()
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "howdah.dev/v1alpha1", Kind: "PostgresCluster", Name: "shop", UID: "u"}}
	token := *owned.DeepCopy()
	token.Annotations = map[string]string{corev1.ServiceAccountNameKey: "theirs"}
	binding := func(kind, role string, subject rbacv1.Subject) *rbacv1.RoleBinding {
		return &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role}, Subjects: []rbacv1.Subject{subject}}
	}
	itself := rbacv1.Subject{Kind: "ServiceAccount", Name: "x" + c.account, Namespace: namespace}
	rebound := func(subject rbacv1.Subject) *rbacv1.RoleBinding { // its name is taken, which is found out later
		b := binding("Role", c.account, subject)
		b.Name = c.account
		return b
	}
	named := func(object client.Object, name string) client.Object {
		object.SetNamespace(namespace)
		object.SetName(name)
		return object
	}
	patch := func(object client.Object, patch string) attempt {
		return func(ctx context.Context, as client.Client) error {
			return as.Patch(ctx, object, client.RawPatch("application/strategic-merge-patch+json", []byte(patch)))
		}
	}
	all := map[string]attempt{
		"the token of an account":       create(&corev1.Secret{ObjectMeta: token, Type: corev1.SecretTypeServiceAccountToken}),
		"a bootstrap token":             create(&corev1.Secret{ObjectMeta: owned, Type: corev1.SecretTypeBootstrapToken}),
		"a Secret of nobody":            create(&corev1.Secret{ObjectMeta: meta}),
		"a Role with a wildcard":        create(&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}}),
		"a Role that reads all Secrets": create(&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}}),
		"a Role for all pods":           create(&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}}),
		"instances with a right to any pod": create(&rbacv1.Role{ObjectMeta: instances, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"theirs"}, Verbs: []string{"patch"},
		}}}),
		"instances that read a Secret": create(&rbacv1.Role{ObjectMeta: instances, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"theirs"}, Verbs: []string{"get"},
		}}}),
		"instances that use a pod": create(&rbacv1.Role{ObjectMeta: instances, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"x-0"}, Verbs: []string{"use"},
		}}}),
		"instances with a right to any slice": create(&rbacv1.Role{ObjectMeta: instances, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, ResourceNames: []string{"x"}, Verbs: []string{"patch"},
		}}}),
		"a binding to cluster-admin":   create(binding("ClusterRole", "cluster-admin", itself)),
		"a binding to its own role":    create(binding("ClusterRole", "howdah-db-controller", itself)),
		"a binding to another Role":    create(binding("Role", "theirs", itself)),
		"a binding of another account": create(rebound(rbacv1.Subject{Kind: "ServiceAccount", Name: "default", Namespace: namespace})),
		"a binding of a user":          create(rebound(rbacv1.Subject{Kind: "User", Name: "mallory"})),
		"an account of another name":   create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "admin", Labels: ours()}}),
		"an account in kube-system":    create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: c.account, Labels: ours()}}),
		"a Service with an address of others": create(&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
			ExternalIPs: []string{"192.0.2.1"}, Ports: []corev1.ServicePort{{Port: 443}},
		}}),
		"a Service that is somebody else's": create(&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}}),
		"another image in a pod":            patch(named(&corev1.Pod{}, "theirs"), `{"spec":{"containers":[{"name":"c","image":"evil"}]}}`),
		"another image in an instance":      patch(named(&corev1.Pod{}, "shop-0"), `{"spec":{"containers":[{"name":"c","image":"evil"}]}}`),
		"another's ConfigMap":               patch(named(&corev1.ConfigMap{}, "theirs"), `{"data":{"a":"b"},"metadata":{"labels":{"app.kubernetes.io/managed-by":"howdah"}}}`),
		"another's Secret":                  patch(named(&corev1.Secret{}, "theirs"), `{"data":{"a":"Yg=="}}`),
		"another's account":                 patch(named(&corev1.ServiceAccount{}, "theirs"), `{"metadata":{"annotations":{"a":"b"}}}`),
		"the end of another's Secret": func(ctx context.Context, as client.Client) error {
			return as.Delete(ctx, named(&corev1.Secret{}, "theirs"))
		},
		"the end of another's pod": func(ctx context.Context, as client.Client) error {
			return as.Delete(ctx, named(&corev1.Pod{}, "theirs"))
		},
		"the end of another's ConfigMap": func(ctx context.Context, as client.Client) error {
			return as.Delete(ctx, named(&corev1.ConfigMap{}, "theirs"))
		},
	}
	if c.component != workload.ComponentInit {
		maps.Copy(all, ofTheDBController(namespace))
	}
	return all
}

// ofTheDBController is what other controllers would do to objects of a cluster, which have the label of Howdah as theirs do.
func ofTheDBController(namespace string) map[string]attempt {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: ours()}
	}
	end := func(object client.Object) attempt {
		return func(ctx context.Context, as client.Client) error { return as.Delete(ctx, object) }
	}
	change := func(object client.Object, patch string) attempt {
		return func(ctx context.Context, as client.Client) error {
			return as.Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(patch)))
		}
	}
	keys := meta("shop-ca")
	keys.OwnerReferences = []metav1.OwnerReference{{APIVersion: "howdah.dev/v1alpha1", Kind: "PostgresCluster", Name: "shop", UID: "u"}}
	return map[string]attempt{
		"the end of the agents' configuration": end(&corev1.ConfigMap{ObjectMeta: meta("shop-config")}),
		"the agents' configuration":            change(&corev1.ConfigMap{ObjectMeta: meta("shop-config")}, `{"data":{"a":"b"}}`),
		"a configuration for the agents": func(ctx context.Context, as client.Client) error {
			return as.Create(ctx, &corev1.ConfigMap{ObjectMeta: meta("cart-config")})
		},
		"where readers are led":          change(&corev1.Service{ObjectMeta: meta("shop-ro")}, `{"spec":{"selector":{"a":"b"}}}`),
		"the end of the instances' Role": end(&rbacv1.Role{ObjectMeta: meta("cart-instance")}),
		"the end of their account":       end(&corev1.ServiceAccount{ObjectMeta: meta("cart-instance")}),
		"the end of another's Job":       end(&batchv1.Job{ObjectMeta: meta("cart-init")}),
		"a CA of its own": func(ctx context.Context, as client.Client) error {
			return as.Create(ctx, &corev1.Secret{ObjectMeta: keys})
		},
	}
}

func TestTheLoginsOfABackupMayBeRestored(t *testing.T) {
	apiserver.InstallBoundaries(t)
	namespace := apiserver.Namespace(t, apiserver.Client(t))
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop", UID: "u"}}
	for _, own := range []bool{true, false} {
		login := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "shop-app", Labels: ours(), OwnerReferences: []metav1.OwnerReference{protocol.LoginOwner(cluster, own)},
		}}
		if err := client.NewDryRunClient(apiserver.ClientAs(t, "restore-controller")).Create(t.Context(), login); err != nil {
			t.Error(err)
		}
	}
}

func TestOthersAreNotHeldToTheBoundaries(t *testing.T) {
	apiserver.InstallBoundaries(t)
	admin := apiserver.Client(t)
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: apiserver.Namespace(t, admin), Name: "theirs"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, HostNetwork: true, Containers: []corev1.Container{{Name: "c", Image: "c"}},
		}}},
	}
	if err := admin.Create(t.Context(), job); err != nil {
		t.Error(err)
	}
}

// The upgrade-controller looks at each volume in a Job of another name before an upgrade links files.
func TestTheUpgradeControllerLooksAtVolumes(t *testing.T) {
	apiserver.InstallBoundaries(t)
	look := controllers(apiserver.Namespace(t, apiserver.Client(t)))["upgrade-controller"].normal()
	look.Name, look.OldImage, look.DataReadOnly, look.Progress, look.Inline, look.Node = "u-data-1", "", true, nil, true, ""
	if err := look.Ensure(t.Context(), apiserver.ClientAs(t, "upgrade-controller")); err != nil {
		t.Errorf("its own Job is refused: %v", err)
	}
}
