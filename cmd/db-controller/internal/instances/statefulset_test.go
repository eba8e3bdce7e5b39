package instances

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/test/testkit/fakeapi"
)

// ordered notes what is written, and writes no StatefulSet.
type ordered struct {
	client.Client

	wrote []string
}

func (c *ordered) Patch(ctx context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
	c.wrote = append(c.wrote, object.GetName())
	return c.Client.Patch(ctx, object, patch, opts...)
}

func (c *ordered) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	c.wrote = append(c.wrote, "StatefulSet")
	return nil
}

// Without that, a former leader that was held up could delete the volume that an instance uses again: a claim doesn't change by being mounted.
func TestAClaimBecomesAnotherVersionBeforeAnInstanceUsesIt(t *testing.T) {
	for name, c := range map[string]struct {
		replicas int32
		want     []string
	}{
		"an instance is added": {2, []string{"data-shop-2", "StatefulSet"}},
		"all are started":      {0, []string{"data-shop-0", "data-shop-1", "data-shop-2", "StatefulSet"}},
		"all run":              {3, nil},
	} {
		o := observedtest.Trio(func(o *observed.Cluster) {
			if observedtest.ReplicasOfSet(o, c.replicas); c.replicas == 0 {
				observedtest.AllGone(o)
			}
		})
		server := &ordered{Client: fakeapi.New(o.Claim(0).DeepCopy(), o.Claim(1).DeepCopy(), o.Claim(2).DeepCopy())}
		claim := o.Claim(2)
		if err := server.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
			t.Fatal(err)
		}
		outcome := (&Steps{Applier: &apply.Applier{Client: server}}).EnsureStatefulSet(t.Context(), o)
		if c.want == nil { // whether anything else of it is to be written is not looked at here
			server.wrote = slices.DeleteFunc(server.wrote, func(name string) bool { return name == "StatefulSet" })
		}
		if !slices.Equal(server.wrote, c.want) {
			t.Errorf("%s: wrote %v, %+v", name, server.wrote, outcome)
		}
		seen := claim.ResourceVersion
		if c.want != nil { // the process has died before it wrote the StatefulSet: the next one gets further
			if err := server.Get(t.Context(), client.ObjectKeyFromObject(claim), o.Claim(2)); err != nil {
				t.Fatal(err)
			}
			server.wrote = nil
			(&Steps{Applier: &apply.Applier{Client: server}}).EnsureStatefulSet(t.Context(), o)
			if slices.Contains(server.wrote, claim.Name) {
				t.Errorf("%s: the next process wrote %v", name, server.wrote)
			}
			o.Cluster.Generation += 2 // the instance was removed and added again
			if (&Steps{Applier: &apply.Applier{Client: server}}).EnsureStatefulSet(t.Context(), o); !slices.Contains(server.wrote, claim.Name) {
				t.Errorf("%s: an instance that was added again wrote %v", name, server.wrote)
			}
		}
		if err := server.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil || (claim.ResourceVersion == seen) != (c.want == nil) ||
			(claim.Annotations[component.AnnotationUsedFor] == "") != (c.want == nil) {
			t.Errorf("%s: %v, %+v", name, err, claim.ObjectMeta)
		}
	}
}
