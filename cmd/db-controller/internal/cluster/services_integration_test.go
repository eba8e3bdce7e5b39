//go:build integration

package cluster

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/apiserver"
)

func TestAServiceFollowsItsTemplateThereAndBack(t *testing.T) {
	l := newLab(t)
	l.stop()
	l.account = apiserver.As(t, "db-controller") // which may do no more than the chart allows
	l.agent.Image = "registry.local/howdah/agent:1"
	l.startController()
	shop := l.shop(nil)
	l.awaitRunning(shop)
	service := &corev1.Service{}
	l.there(service, "shop-rw")
	uid, address := service.UID, service.Spec.ClusterIP

	l.change(shop, func() {
		shop.Spec.Services.RW = v1alpha1.ServiceTemplate{
			Type: "LoadBalancer", LoadBalancerClass: "example.com/a", ExternalTrafficPolicy: "Local",
			LoadBalancerSourceRanges: []v1alpha1.SourceRange{"10.0.0.0/8"},
			Labels:                   map[string]v1alpha1.LabelValue{"team": "a"}, Annotations: map[string]string{"example.com/scheme": "internal"},
		}
	})
	l.eventually("a load balancer", func() bool {
		l.there(service, "shop-rw")
		return service.Spec.Type == "LoadBalancer" && ptr.Deref(service.Spec.LoadBalancerClass, "") == "example.com/a" &&
			service.Spec.ExternalTrafficPolicy == "Local" && slices.Equal(service.Spec.LoadBalancerSourceRanges, []string{"10.0.0.0/8"}) &&
			service.Labels["team"] == "a" && service.Annotations["example.com/scheme"] == "internal"
	})
	l.change(service, func() { service.Annotations["cloud.example/id"] = "lb-1" }) // as a cloud's controller does

	l.change(shop, func() { shop.Spec.Services.RW.LoadBalancerClass = "example.com/b" })
	l.eventually("another class", func() bool {
		return l.there(service, "shop-rw") && service.Spec.Type == "LoadBalancer" && ptr.Deref(service.Spec.LoadBalancerClass, "") == "example.com/b"
	})

	l.change(shop, func() { shop.Spec.Services.RW = v1alpha1.ServiceTemplate{} })
	l.eventually("no trace of it", func() bool {
		l.there(service, "shop-rw")
		_, annotated := service.Annotations["example.com/scheme"]
		_, labelled := service.Labels["team"]
		return service.Spec.Type == "ClusterIP" && service.Spec.LoadBalancerClass == nil && service.Spec.ExternalTrafficPolicy == "" &&
			len(service.Spec.LoadBalancerSourceRanges) == 0 && !annotated && !labelled && service.Spec.Ports[0].NodePort == 0
	})
	if service.UID != uid || service.Spec.ClusterIP != address || service.Annotations["cloud.example/id"] != "lb-1" {
		t.Errorf("it isn't the Service any more that it was, or lost what others added: %+v", service)
	}
}

func TestAServiceThatIsDisabledGoesAndComesBack(t *testing.T) {
	l := newLab(t)
	l.stop()
	l.account = apiserver.As(t, "db-controller")
	l.agent.Image = "registry.local/howdah/agent:1"
	l.startController()
	shop := l.shop(func(c *v1alpha1.PostgresCluster) { c.Spec.Services.R.Enabled = ptr.To(false) })
	l.awaitRunning(shop)
	if l.there(&corev1.Service{}, "shop-r") || !l.there(&corev1.Service{}, "shop-ro") {
		t.Error("shop-r is there, or shop-ro isn't")
	}
	l.change(shop, func() { shop.Spec.Services.RO.Enabled, shop.Spec.Services.R.Enabled = ptr.To(false), nil })
	l.eventually("one goes and one comes", func() bool { return !l.there(&corev1.Service{}, "shop-ro") && l.there(&corev1.Service{}, "shop-r") })
	l.awaitRunning(shop)
}

func TestAnAdditionalServiceComesAndGoesAndNeverTakesAnothersName(t *testing.T) {
	l := newLab(t)
	l.stop()
	l.account = apiserver.As(t, "db-controller")
	l.agent.Image = "registry.local/howdah/agent:1"
	l.startController()
	theirs := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	theirs.Namespace, theirs.Name, theirs.Labels = l.ns, "shop-etl", map[string]string{v1alpha1.LabelCluster: "shop", v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
	l.create(theirs)
	shop := l.shop(func(c *v1alpha1.PostgresCluster) {
		c.Spec.Services.Additional = []v1alpha1.AdditionalService{{Name: "reports", Role: v1alpha1.ServiceAny, ServiceTemplate: v1alpha1.ServiceTemplate{Type: "NodePort"}}}
	})
	l.awaitRunning(shop)
	reports := &corev1.Service{}
	if !l.there(reports, "shop-reports") || reports.Spec.Type != "NodePort" || !metav1.IsControlledBy(reports, shop) {
		t.Errorf("it is not as it is declared: %+v", reports)
	}
	l.change(shop, func() {
		shop.Spec.Services.Additional = []v1alpha1.AdditionalService{{Name: "etl", Role: v1alpha1.ServicePrimary}, {Name: "one", Instance: "shop-0"}}
		shop.Spec.Pods.Labels = map[string]v1alpha1.LabelValue{"team": "a"}
	})
	if says := l.awaitCondition(shop, v1alpha1.ConditionUpToDate, metav1.ConditionFalse, v1alpha1.ReasonNameConflict); !strings.Contains(says, "Service shop-etl already exists") ||
		!strings.Contains(says, "use another name in spec.services.additional") {
		t.Errorf("it says %s", says)
	}
	l.eventually("one goes and one comes", func() bool { return !l.there(reports, "shop-reports") && l.there(&corev1.Service{}, "shop-one") })
	l.eventually("pods are replaced all the same", func() bool {
		pod := &corev1.Pod{}
		return l.there(pod, "shop-0") && pod.Labels["team"] == "a"
	})
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning)
	l.change(shop, func() { shop.Spec.Services.Additional = shop.Spec.Services.Additional[1:] })
	l.awaitCondition(shop, v1alpha1.ConditionUpToDate, metav1.ConditionTrue, v1alpha1.ReasonCurrent)
	l.change(shop, func() { shop.Spec.Services.Additional = nil })
	l.eventually("the last one goes", func() bool { return !l.there(&corev1.Service{}, "shop-one") })
	l.awaitRunning(shop)
	uid := theirs.UID
	if !l.there(theirs, "shop-etl") || theirs.UID != uid {
		t.Error("somebody else's Service was deleted")
	}
}

// TestSomebodyElsesServiceOfADisabledNameIsLeftAlone: nothing of ours needs the name.
func TestSomebodyElsesServiceOfADisabledNameIsLeftAlone(t *testing.T) {
	l := newLab(t)
	theirs := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	theirs.Namespace, theirs.Name, theirs.Labels = l.ns, "shop-ro", map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
	l.create(theirs)
	shop := l.shop(func(c *v1alpha1.PostgresCluster) { c.Spec.Services.RO.Enabled = ptr.To(false) })
	l.awaitRunning(shop)
	uid := theirs.UID
	if !l.there(theirs, "shop-ro") || theirs.UID != uid || !theirs.DeletionTimestamp.IsZero() {
		t.Error("it was deleted")
	}
}

func TestTheServersCertificateGetsMoreNames(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	names := func() []string {
		secret := &corev1.Secret{}
		l.there(secret, "shop-instance")
		block, _ := pem.Decode(secret.Data["server.crt"])
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return certificate.DNSNames
	}
	before := names()
	l.change(shop, func() { shop.Spec.TLS.DNSNames = []v1alpha1.DNSName{"db.example.com"} })
	l.eventually("the name is added", func() bool { return slices.Equal(names(), append(slices.Clone(before), "db.example.com")) })
	l.change(shop, func() { shop.Spec.TLS.DNSNames = nil })
	l.eventually("the name is taken away", func() bool { return slices.Equal(names(), before) })
}
