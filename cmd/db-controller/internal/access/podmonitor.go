package access

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/cmd/db-controller/internal/component/podmonitor"
	"howdah.dev/howdah/cmd/db-controller/internal/component/secret"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
)

// EnsureMetricsCertificate creates the certificate of Prometheus where spec wants a PodMonitor, also where there can't be one yet.
func (s *Steps) EnsureMetricsCertificate(ctx context.Context, o *observed.Cluster) flow.Outcome {
	if wantedPodMonitor(o) == nil {
		return flow.Next // it is removed after the PodMonitor
	}
	wanted, err := secret.ClientTLS(o.Cluster, o.Names.Metrics(), agentapi.MetricsCommonName, o.Secret(o.Names.Metrics()), o.Authority, o.Now)
	if err != nil {
		return flow.Retry(err)
	}
	return s.PutAll(ctx, o, wanted)
}

// EnsurePodMonitor creates the PodMonitor, or removes it with its certificate. A cluster runs on without one, and its condition says why.
func (s *Steps) EnsurePodMonitor(ctx context.Context, o *observed.Cluster) flow.Outcome {
	live, _ := o.Live[observed.Key("PodMonitor", o.Names.PodMonitor())].(*unstructured.Unstructured)
	foreign := live != nil && observed.Foreign(live, o.Cluster)
	wanted := wantedPodMonitor(o)
	if wanted == nil {
		return s.removePodMonitor(ctx, o, live, foreign)
	}
	o.Cluster.Status.PodMonitor = o.Names.PodMonitor()
	if o.NoPodMonitors || foreign {
		return flow.Next
	}
	if err := s.putPodMonitor(ctx, o, live, podmonitor.Of(o.Cluster, wanted)); err != nil {
		return flow.Retry(err)
	}
	return flow.Next
}

func wantedPodMonitor(o *observed.Cluster) *v1alpha1.PodMonitor {
	if o.Cluster.Spec.Monitoring == nil {
		return nil
	}
	return o.Cluster.Spec.Monitoring.PodMonitor
}

func (s *Steps) removePodMonitor(ctx context.Context, o *observed.Cluster, live *unstructured.Unstructured, foreign bool) flow.Outcome {
	if o.Cluster.Status.PodMonitor == "" {
		return flow.Next
	}
	if live != nil && !foreign && live.GetDeletionTimestamp() == nil {
		if err := s.Remove(ctx, live); err != nil {
			return flow.Retry(err)
		}
	}
	if err := s.removeCertificate(ctx, o, o.Secret(o.Names.Metrics())); err != nil {
		return flow.Retry(err)
	}
	o.Cluster.Status.PodMonitor = "" // last: without it nobody looks for them
	return flow.Next
}

// putPodMonitor writes only what differs. Other labels and annotations on it stay.
func (s *Steps) putPodMonitor(ctx context.Context, o *observed.Cluster, live, wanted *unstructured.Unstructured) error {
	if live != nil && reflect.DeepEqual(live.Object["spec"], wanted.Object["spec"]) && hasLabels(live, wanted) {
		return nil
	}
	if err := controllerutil.SetControllerReference(o.Cluster, wanted, s.Client.Scheme()); err != nil {
		return fmt.Errorf("own PodMonitor %s: %w", wanted.GetName(), err)
	}
	if live != nil {
		wanted.SetUID(live.GetUID()) // should it be somebody else's meanwhile, the write fails
	}
	err := s.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted), client.FieldOwner(apply.FieldManager), client.ForceOwnership)
	if meta.IsNoMatchError(err) {
		o.NoPodMonitors = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("apply PodMonitor %s: %w", wanted.GetName(), err)
	}
	return nil
}

func hasLabels(live, wanted *unstructured.Unstructured) bool {
	all := live.GetLabels()
	for name, value := range wanted.GetLabels() {
		if has, found := all[name]; !found || has != value {
			return false
		}
	}
	return true
}
