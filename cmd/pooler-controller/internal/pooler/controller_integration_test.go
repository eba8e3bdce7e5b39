//go:build integration

package pooler

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/workload"
	"howdah.dev/howdah/test/testkit/apiserver"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

// lab is one namespace with a pooler-controller that has its own account only.
type lab struct {
	*testing.T
	client.Client
	ns string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	t.Parallel()
	c := apiserver.Client(t)
	l := &lab{T: t, Client: c, ns: apiserver.Namespace(t, c)}
	apiserver.Run(t, l.ns, func(_ context.Context, mgr ctrl.Manager) error {
		return New(manager.NewDependencies(mgr, "pooler-controller", manager.Settings{
			Agent: workload.Agent{Image: "registry.local/howdah/agent:dev"}, PgBouncer: "pgbouncer:1",
		})).SetupWithManager(mgr)
	}, apiserver.As(t, "pooler-controller"))
	return l
}

// cluster makes the PostgresCluster shop, whose certificate is for these Poolers.
func (l *lab) cluster(poolers ...string) *v1alpha1.PostgresCluster {
	l.Helper()
	return l.clusterAs(nil, poolers...)
}

func (l *lab) clusterAs(user *v1alpha1.RunAs, poolers ...string) *v1alpha1.PostgresCluster {
	l.Helper()
	shop := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "shop"}}
	shop.Spec = v1alpha1.PostgresClusterSpec{Version: 17, RunAs: user, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")}}
	if err := l.Create(l.Context(), shop); err != nil {
		l.Fatal(err)
	}
	before := shop.DeepCopy()
	shop.Status.Poolers = poolers
	if err := l.Status().Patch(l.Context(), shop, client.MergeFrom(before)); err != nil {
		l.Fatal(err)
	}
	return shop
}

func (l *lab) pooler(change func(*v1alpha1.PoolerSpec)) *v1alpha1.Pooler {
	l.Helper()
	p := &v1alpha1.Pooler{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "web"}, Spec: v1alpha1.PoolerSpec{
		Cluster: v1alpha1.LocalReference{Name: "shop"}, Instances: 2, Mode: v1alpha1.PoolTransaction, PoolSize: 20, MaxClientConnections: 1000,
	}}
	if change != nil {
		change(&p.Spec)
	}
	if err := l.Create(l.Context(), p); err != nil {
		l.Fatal(err)
	}
	return p
}

// until waits for the condition Ready to have a reason, with the current generation.
func (l *lab) until(p *v1alpha1.Pooler, status metav1.ConditionStatus, reason string) *metav1.Condition {
	l.Helper()
	var ready *metav1.Condition
	if !apiserver.Eventually(l.ns, time.Minute, func() bool {
		if err := l.Get(l.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			l.Fatal(err)
		}
		ready = meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Reason == reason && ready.Status == status && p.Status.ObservedGeneration == p.Generation
	}) {
		l.Fatalf("it is %+v, and not %s", ready, reason)
	}
	return ready
}

func (l *lab) read(object client.Object) {
	l.Helper()
	if err := l.Get(l.Context(), client.ObjectKey{Namespace: l.ns, Name: "web-pooler"}, object); err != nil {
		l.Fatal(err)
	}
}

// serves is a Deployment whose pods are ready.
func (l *lab) serves(ready, replicas int32) {
	l.Helper()
	d := &appsv1.Deployment{}
	l.read(d)
	before := d.DeepCopy()
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: ready, AvailableReplicas: ready}
	if err := l.Status().Patch(context.Background(), d, client.MergeFrom(before)); err != nil {
		l.Fatal(err)
	}
}

func TestAPoolerBecomesADeploymentWithAllThatItNeeds(t *testing.T) {
	l := newLab(t)
	l.cluster("web")
	p := l.pooler(func(s *v1alpha1.PoolerSpec) {
		s.PgBouncer.Parameters = map[string]v1alpha1.PgBouncerValue{"query_wait_timeout": "7"}
		s.DrainTimeout = &metav1.Duration{Duration: 90 * time.Second}
	})
	l.until(p, metav1.ConditionFalse, v1alpha1.ReasonStarting)
	d, config, role, service, budget := &appsv1.Deployment{}, &corev1.ConfigMap{}, &rbacv1.Role{}, &corev1.Service{}, &policyv1.PodDisruptionBudget{}
	for _, object := range []client.Object{d, config, role, service, budget, &corev1.ServiceAccount{}, &rbacv1.RoleBinding{}} {
		l.read(object)
		if !metav1.IsControlledBy(object, p) {
			t.Errorf("%T has no owner", object)
		}
	}
	pod := d.Spec.Template.Spec
	if *d.Spec.Replicas != 2 || pod.Containers[0].Image != "pgbouncer:1" || *pod.TerminationGracePeriodSeconds != 120 || pod.ServiceAccountName != "web-pooler" {
		t.Errorf("%+v", d.Spec)
	}
	for _, want := range []string{`"mode":"transaction"`, `"query_wait_timeout":"7"`, `"endpointSlice":"shop-rw"`, `"podDomain":"shop-pods.` + l.ns + `.svc"`, `"drainSeconds":90`} {
		if !strings.Contains(config.Data["pooler.json"], want) {
			t.Errorf("no %s in %s", want, config.Data["pooler.json"])
		}
	}
	if len(role.Rules) != 1 || role.Rules[0].ResourceNames[0] != "shop-rw" || len(role.Rules[0].Verbs) != 3 {
		t.Errorf("the pods may %+v", role.Rules)
	}
	l.serves(1, 2)
	l.until(p, metav1.ConditionTrue, v1alpha1.ReasonDegraded)
	l.serves(2, 2)
	l.until(p, metav1.ConditionTrue, v1alpha1.ReasonRunning)
	if p.Status.ReadyInstances != 2 || p.Status.Host != "web-pooler."+l.ns+".svc" || p.Status.Selector == "" {
		t.Errorf("%+v", p.Status)
	}
}

func TestAPoolerWaitsForItsClusterAndForTheCertificate(t *testing.T) {
	l := newLab(t)
	p := l.pooler(nil)
	if ready := l.until(p, metav1.ConditionFalse, v1alpha1.ReasonClusterNotFound); !strings.Contains(ready.Message, "There is no PostgresCluster shop") {
		t.Error(ready.Message)
	}
	shop := l.cluster()
	l.until(p, metav1.ConditionUnknown, v1alpha1.ReasonAwaitingCertificate)
	if err := l.Get(t.Context(), client.ObjectKey{Namespace: l.ns, Name: "web-pooler"}, &appsv1.Deployment{}); !apierrors.IsNotFound(err) {
		t.Errorf("there are pods already: %v", err)
	}
	before := shop.DeepCopy()
	shop.Status.Poolers = []string{"web"}
	if err := l.Status().Patch(t.Context(), shop, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	l.until(p, metav1.ConditionFalse, v1alpha1.ReasonStarting)
}

func TestAChangedPoolerChangesItsPodsOnlyWhereThatIsNeeded(t *testing.T) {
	l := newLab(t)
	l.cluster("web")
	p := l.pooler(nil)
	l.until(p, metav1.ConditionFalse, v1alpha1.ReasonStarting)
	d := &appsv1.Deployment{}
	l.read(d)
	generation := d.Generation
	before := p.DeepCopy()
	p.Spec.PoolSize = 3
	p.Spec.PgBouncer.Parameters = map[string]v1alpha1.PgBouncerValue{"verbose": "1"}
	if err := l.Patch(t.Context(), p, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	l.until(p, metav1.ConditionFalse, v1alpha1.ReasonStarting)
	config := &corev1.ConfigMap{}
	l.read(config)
	l.read(d)
	if d.Generation != generation || !strings.Contains(config.Data["pooler.json"], `"poolSize":3`) {
		t.Errorf("generation %d, before %d: %s", d.Generation, generation, config.Data)
	}
	before = p.DeepCopy()
	p.Spec.Image, p.Spec.Instances = "pgbouncer:2", 3
	if err := l.Patch(t.Context(), p, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	l.until(p, metav1.ConditionFalse, v1alpha1.ReasonStarting)
	l.read(d)
	if d.Generation == generation || d.Spec.Template.Spec.Containers[0].Image != "pgbouncer:2" || *d.Spec.Replicas != 3 {
		t.Errorf("%+v", d.Spec)
	}
}

func TestClientsUseTLSAsSpecSaysUnlessItsCertificatesCantBeRead(t *testing.T) {
	l := newLab(t)
	l.cluster("web")
	p := l.pooler(func(s *v1alpha1.PoolerSpec) {
		s.TLS = &v1alpha1.PoolerTLS{MinProtocolVersion: "TLSv1.3", ClientCertificates: v1alpha1.ClientCertificatesRequired}
	})
	l.until(p, metav1.ConditionFalse, v1alpha1.ReasonStarting)
	config := &corev1.ConfigMap{}
	l.read(config)
	const want = `"clientTLS":{"minVersion":"TLSv1.3","verify":true,"require":true}`
	if !strings.Contains(config.Data["pooler.json"], want) {
		t.Errorf("no %s in %s", want, config.Data["pooler.json"])
	}
	before := p.DeepCopy()
	p.Spec.TLS.ClientCABundle = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	if err := l.Patch(t.Context(), p, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if ready := l.until(p, metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec); !strings.HasPrefix(ready.Message, "spec.tls.clientCABundle can't be read: certificate 1: ") {
		t.Error(ready.Message)
	}
	l.read(config)
	if !strings.Contains(config.Data["pooler.json"], want) {
		t.Errorf("the previous configuration is gone: %s", config.Data["pooler.json"])
	}
}

func TestWhatBelongsToSomebodyElseIsNotTouched(t *testing.T) {
	l := newLab(t)
	l.cluster("web")
	foreign := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "web-pooler"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	if err := l.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	p := l.pooler(nil)
	if ready := l.until(p, metav1.ConditionFalse, v1alpha1.ReasonNameConflict); !strings.Contains(ready.Message, "Service web-pooler exists and belongs to somebody else") {
		t.Error(ready.Message)
	}
	after := &corev1.Service{}
	l.read(after)
	if after.ResourceVersion != foreign.ResourceVersion {
		t.Error("it was changed")
	}
	if err := l.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	l.until(p, metav1.ConditionFalse, v1alpha1.ReasonStarting)
}

// The other tests run under the same policies, so they show what these allow.
func TestTheControllerCreatesOnlyPoolers(t *testing.T) {
	l := newLab(t)
	l.cluster("web")
	p := l.pooler(nil)
	l.until(p, metav1.ConditionFalse, v1alpha1.ReasonStarting)
	template := &appsv1.Deployment{}
	l.read(template)
	as := client.NewDryRunClient(apiserver.ClientAs(t, "pooler-controller"))
	for what, change := range map[string]func(*appsv1.Deployment){
		"another name":       func(d *appsv1.Deployment) { d.Name = "web"; d.Spec.Template.Spec.ServiceAccountName = "web" },
		"another account":    func(d *appsv1.Deployment) { d.Spec.Template.Spec.ServiceAccountName = "shop-instance" },
		"another command":    func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Command = []string{"sh"} },
		"an agent of others": func(d *appsv1.Deployment) { d.Spec.Template.Spec.InitContainers[0].Image = "evil/agent" },
		"the certificate's key": func(d *appsv1.Deployment) {
			mount(d, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "shop-ca"}})
		},
		"data": func(d *appsv1.Deployment) {
			mount(d, corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-shop-0"}})
		},
		"the node":      func(d *appsv1.Deployment) { d.Spec.Template.Spec.HostNetwork = true },
		"root":          func(d *appsv1.Deployment) { d.Spec.Template.Spec.SecurityContext.RunAsUser = ptr.To[int64](0) },
		"nobody's name": func(d *appsv1.Deployment) { d.Labels, d.OwnerReferences = nil, nil },
	} {
		d := template.DeepCopy()
		d.ResourceVersion, d.UID = "", ""
		d.Name = "other-pooler"
		d.Spec.Template.Spec.ServiceAccountName = "other-pooler"
		if err := as.Create(t.Context(), d.DeepCopy()); err != nil {
			t.Fatalf("its own is refused: %v", err)
		}
		change(d)
		if err := as.Create(t.Context(), d); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, object := range []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "shop-ca"}}, &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "shop"}},
	} {
		if err := as.Delete(t.Context(), object); !apierrors.IsForbidden(err) {
			t.Errorf("it may delete a %T: %v", object, err)
		}
	}
	if err := apiserver.ClientAs(t, "pooler-controller").Get(t.Context(), client.ObjectKey{Namespace: l.ns, Name: "shop-pooler"}, &corev1.Secret{}); !apierrors.IsForbidden(err) {
		t.Errorf("it may read Secrets: %v", err)
	}
}

func mount(d *appsv1.Deployment, source corev1.VolumeSource) {
	d.Spec.Template.Spec.Volumes = append(d.Spec.Template.Spec.Volumes, corev1.Volume{Name: "more", VolumeSource: source})
}

// What the pods may do is what the agent in them needs: it gets and watches one EndpointSlice by its name.
func TestThePodsSeeWhereThePrimaryIsAndNothingElse(t *testing.T) {
	l := newLab(t)
	l.cluster("web")
	l.until(l.pooler(nil), metav1.ConditionFalse, v1alpha1.ReasonStarting)
	config := apiserver.Config()
	config.Impersonate.UserName = "system:serviceaccount:" + l.ns + ":web-pooler"
	as, err := client.NewWithWatch(config, client.Options{Scheme: manager.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	slice := func(name string) error {
		return as.Get(t.Context(), client.ObjectKey{Namespace: l.ns, Name: name}, &discoveryv1.EndpointSlice{})
	}
	if err := slice("shop-rw"); !apierrors.IsNotFound(err) {
		t.Errorf("they can't look where the primary is: %v", err)
	}
	watching, err := as.Watch(t.Context(), &discoveryv1.EndpointSliceList{}, client.InNamespace(l.ns), client.MatchingFields{"metadata.name": "shop-rw"})
	if err != nil {
		t.Errorf("they can't watch it: %v", err)
	} else {
		watching.Stop()
	}
	if err := slice("orders-rw"); !apierrors.IsForbidden(err) {
		t.Errorf("they see another cluster's: %v", err)
	}
	if err := as.List(t.Context(), &discoveryv1.EndpointSliceList{}, client.InNamespace(l.ns)); !apierrors.IsForbidden(err) {
		t.Errorf("they see all: %v", err)
	}
	if err := as.Get(t.Context(), client.ObjectKey{Namespace: l.ns, Name: "shop-pooler"}, &corev1.Secret{}); !apierrors.IsForbidden(err) {
		t.Errorf("they read Secrets: %v", err)
	}
}

// The policies of the suite admit these, too.
func TestPodsHaveWhatSpecPodsAndSchedulingSay(t *testing.T) {
	l := newLab(t)
	l.cluster("web")
	p := l.pooler(func(s *v1alpha1.PoolerSpec) {
		s.Pods = v1alpha1.PodMetadata{
			Labels: map[string]v1alpha1.LabelValue{"team": "a"}, Annotations: map[string]string{"example.com/scrape": "true"},
			ServiceAccountAnnotations: map[string]string{"example.com/role": "web"}, RuntimeClassName: "gvisor",
		}
		s.Scheduling.PriorityClassName = "high"
	})
	l.until(p, metav1.ConditionFalse, v1alpha1.ReasonStarting)
	d, account := &appsv1.Deployment{}, &corev1.ServiceAccount{}
	l.read(d)
	l.read(account)
	pod := d.Spec.Template
	if pod.Labels["team"] != "a" || pod.Labels[v1alpha1.LabelPooler] != "web" || pod.Annotations["example.com/scrape"] != "true" || *pod.Spec.RuntimeClassName != "gvisor" || pod.Spec.PriorityClassName != "high" {
		t.Errorf("%+v", pod)
	}
	if d.Labels["team"] != "" || d.Spec.Selector.MatchLabels["team"] != "" || account.Annotations["example.com/role"] != "web" {
		t.Errorf("%+v, %+v", d, account)
	}
	before := p.DeepCopy()
	p.Spec.Pods = v1alpha1.PodMetadata{}
	if err := l.Patch(t.Context(), p, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	l.until(p, metav1.ConditionFalse, v1alpha1.ReasonStarting)
	after := &appsv1.Deployment{}
	l.read(after)
	if _, still := after.Spec.Template.Labels["team"]; still || after.Spec.Template.Spec.RuntimeClassName != nil {
		t.Errorf("%+v", after.Spec.Template)
	}
}

// The policies of the suite admit such pods, too: the tests run under them.
func TestPodsRunAsTheirNamespaceDecidesWhereThoseOfTheClusterDo(t *testing.T) {
	for what, user := range map[string]*v1alpha1.RunAs{"the image's user": {UserID: ptr.To[int64](26)}, "the namespace decides": {FromNamespace: true}} {
		t.Run(what, func(t *testing.T) {
			l := newLab(t)
			l.clusterAs(user, "web")
			l.until(l.pooler(nil), metav1.ConditionFalse, v1alpha1.ReasonStarting)
			d := &appsv1.Deployment{}
			l.read(d)
			s := d.Spec.Template.Spec.SecurityContext
			if decided := s.RunAsUser == nil && s.RunAsGroup == nil && s.FSGroup == nil; decided != user.FromNamespace || !*s.RunAsNonRoot {
				t.Errorf("%+v", s)
			}
		})
	}
}
