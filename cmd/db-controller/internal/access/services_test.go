package access

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/cmd/db-controller/internal/component/service"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/test/testkit/fakeapi"
)

// TestTheEndpointSliceHasTheFamilyOfItsService: the type of its addresses can't be changed, and the agent writes the address of
// its pod, so one of the wrong family is never used.
func TestTheEndpointSliceHasTheFamilyOfItsService(t *testing.T) {
	for family, want := range map[corev1.IPFamily]discoveryv1.AddressType{
		"":                  discoveryv1.AddressTypeIPv4, // no API server leaves it empty
		corev1.IPv4Protocol: discoveryv1.AddressTypeIPv4, corev1.IPv6Protocol: discoveryv1.AddressTypeIPv6,
	} {
		for _, from := range []discoveryv1.AddressType{"", discoveryv1.AddressTypeIPv4} {
			o := observedtest.Running(func(o *observed.Cluster) { o.Live = map[string]client.Object{} })
			api := fakeapi.New(o.Cluster)
			steps := &Steps{Applier: &apply.Applier{Client: api}}
			if family != "" {
				live := service.Primary(o.Cluster)
				live.Spec.IPFamilies = []corev1.IPFamily{family}
				create(t, api, o, "Service", live)
			}
			if from != "" { // as an earlier suite created it
				create(t, api, o, "EndpointSlice", service.PrimarySlice(o.Cluster, from))
			}
			slice, key := &discoveryv1.EndpointSlice{}, client.ObjectKey{Namespace: "demo", Name: "shop-rw"}
			for range 2 { // the second pass creates what the first has removed
				if outcome := steps.EnsureServices(t.Context(), o); !outcome.Finished() {
					t.Fatalf("%q from %q: %+v", family, from, outcome)
				}
				if apierrors.IsNotFound(api.Get(t.Context(), key, slice)) {
					delete(o.Live, observed.Key("EndpointSlice", "shop-rw"))
				}
			}
			if err := api.Get(t.Context(), key, slice); err != nil || slice.AddressType != want {
				t.Errorf("family %q, EndpointSlice of %q: it is of %q now, want %q: %v", family, from, slice.AddressType, want, err)
			}
		}
	}
}

func create(t *testing.T, api client.Client, o *observed.Cluster, kind string, object client.Object) {
	t.Helper()
	if err := api.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	o.Live[observed.Key(kind, object.GetName())] = object
}
