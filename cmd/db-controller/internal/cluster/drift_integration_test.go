//go:build integration

package cluster

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/cmd/db-controller/internal/secretcache"
)

func TestWhatIsDeletedByHandIsCreatedAgain(t *testing.T) {
	l := newLab(t)
	l.awaitRunning(l.shop(nil))
	for name, object := range map[string]client.Object{
		"shop-rw": &corev1.Service{}, "shop-config": &corev1.ConfigMap{}, "shop-instance": &rbacv1.Role{},
	} {
		l.there(object, name)
		uid := object.GetUID()
		if err := l.Delete(context.Background(), object); err != nil {
			t.Fatal(err)
		}
		l.eventually("a new "+name, func() bool { return l.there(object, name) && object.GetUID() != uid })
	}
}

func TestWhatIsChangedByHandIsPutBack(t *testing.T) {
	l := newLab(t)
	l.awaitRunning(l.shop(nil))
	service := &corev1.Service{}
	l.there(service, "shop-r")
	l.change(service, func() { service.Spec.Ports[0].Port = 6000 })
	l.eventually("the port is put back", func() bool { return l.there(service, "shop-r") && service.Spec.Ports[0].Port == 5432 })
	l.change(service, func() {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: "more", Port: 6001})
	})
	l.eventually("the other port is taken away", func() bool { return l.there(service, "shop-r") && len(service.Spec.Ports) == 1 })
	set := &appsv1.StatefulSet{}
	l.there(set, "shop")
	l.change(set, func() { set.Spec.Replicas = ptr.To[int32](3) })
	l.eventually("replicas are put back", func() bool { return l.there(set, "shop") && *set.Spec.Replicas == 1 })
	configMap := &corev1.ConfigMap{}
	l.there(configMap, "shop-config")
	l.change(configMap, func() { configMap.Data["agent.json"] = "{}" })
	l.eventually("agent.json is put back", func() bool { return l.there(configMap, "shop-config") && len(configMap.Data["agent.json"]) > 10 })
}

func TestWhatOthersAddIsLeftAlone(t *testing.T) {
	l := newLab(t)
	l.awaitRunning(l.shop(nil))
	service := &corev1.Service{}
	l.there(service, "shop-rw")
	l.change(service, func() { service.Annotations["example.com/mine"] = "yes" })
	slice := &discoveryv1.EndpointSlice{}
	l.there(slice, "shop-rw")
	l.change(slice, func() {
		slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.70"}}}
		slice.Ports = []discoveryv1.EndpointPort{{Name: ptr.To("postgres"), Port: ptr.To[int32](5432)}}
	})
	l.settle()
	l.get(service)
	l.get(slice)
	if service.Annotations["example.com/mine"] != "yes" || len(slice.Endpoints) != 1 || len(slice.Ports) != 1 {
		t.Errorf("annotations %v, endpoints %v", service.Annotations, slice.Endpoints)
	}
}

func TestASecretIsPutBackAndItsPasswordKept(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	app := &corev1.Secret{}
	l.there(app, "shop-app")
	password := string(app.Data["password"])
	l.change(app, func() { delete(app.Data, "uri") })
	l.clock.forward(2 * secretcache.SecretAge)
	l.change(shop, func() { shop.Annotations = map[string]string{"example.com/wake": "up"} })
	l.eventually("the uri is put back", func() bool { return l.there(app, "shop-app") && len(app.Data["uri"]) > 0 })
	if string(app.Data["password"]) != password {
		t.Error("the password has changed")
	}
}
