package pooler

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/serverside"
	"howdah.dev/howdah/pkg/workload"
)

// fieldManager of everything that is applied.
const fieldManager = "pooler-controller"

func requireCluster(_ context.Context, o *observed) flow.Outcome {
	if o.cluster == nil {
		return flow.Wait(v1alpha1.ReasonClusterNotFound, fmt.Sprintf("There is no PostgresCluster %s in this namespace. Create it, or delete this Pooler and create one whose spec.cluster.name names another cluster.", o.pooler.Spec.Cluster.Name))
	}
	return flow.Next
}

func awaitCertificate(_ context.Context, o *observed) flow.Outcome {
	if protocol.PoolerAdmitted(o.cluster, o.pooler) {
		return flow.Next
	}
	if !slices.Contains(o.entitled, o.pooler.Name) {
		return flow.Stop(v1alpha1.ReasonLimitExceeded, fmt.Sprintf("PostgresCluster %s has certificates for its %d oldest Poolers, and this Pooler is not one of them. Once you delete a Pooler that is not needed any more, this one gets a certificate.", o.cluster.Name, len(o.entitled)))
	}
	message := fmt.Sprintf("The db-controller has not issued a certificate for this Pooler yet. status.poolers of PostgresCluster %s will name it.", o.cluster.Name)
	if why := notReady(o.cluster); why != "" {
		message += " " + why
	}
	return flow.Wait(v1alpha1.ReasonAwaitingCertificate, message)
}

func requireImage(_ context.Context, o *observed) flow.Outcome {
	if o.image == "" {
		return flow.Stop(v1alpha1.ReasonNoPoolerImage, "The suite has no image of PgBouncer. Set spec.image, such as registry.example/pgbouncer:1.25.2, or pgbouncer.image in the values of the chart.")
	}
	return flow.Next
}

// requireClientCA keeps what PgBouncer couldn't read away from it: it wouldn't start.
func requireClientCA(_ context.Context, o *observed) flow.Outcome {
	if o.pooler.Spec.TLS == nil || o.pooler.Spec.TLS.ClientCABundle == "" {
		return flow.Next
	}
	if err := certificates(o.pooler.Spec.TLS.ClientCABundle); err != nil {
		return flow.Stop(v1alpha1.ReasonInvalidSpec, fmt.Sprintf("spec.tls.clientCABundle can't be read: %v. Write certificates in PEM, such as the content of ca.crt. The previous configuration stays.", err))
	}
	return flow.Next
}

// certificates says what is wrong with certificates in PEM. Other text between them doesn't matter.
func certificates(bundle string) error {
	rest := []byte(bundle)
	for n := 0; ; n++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			if n == 0 {
				return errors.New("it has no certificate")
			}
			return nil
		}
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("it has a %s", block.Type)
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf("certificate %d: %w", n+1, err)
		}
	}
}

// ensure keeps one object as it is wanted. Where the name is taken, nothing is touched.
func (r *Reconciler) ensure(build func(*observed) client.Object) step {
	return func(ctx context.Context, o *observed) flow.Outcome {
		object := build(o)
		if err := controllerutil.SetControllerReference(o.pooler, object, r.Client.Scheme()); err != nil {
			return flow.Retry(err)
		}
		wanted, err := serverside.Fields(r.Client.Scheme(), object)
		if err != nil {
			return flow.Retry(err)
		}
		live := o.live[wanted.GetKind()]
		switch {
		case live == nil:
			wanted.SetResourceVersion(serverside.NoVersion)
		case !metav1.IsControlledBy(live, o.pooler):
			return taken(wanted.GetKind(), wanted.GetName())
		default:
			wanted.SetUID(live.GetUID()) // should it be replaced by somebody else meanwhile, the write fails
		}
		err = r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted), client.FieldOwner(fieldManager), client.ForceOwnership)
		switch {
		case live == nil && apierrors.IsConflict(err):
			return r.unlessOurs(ctx, o, wanted)
		case err != nil:
			return flow.Retry(fmt.Errorf("apply %s %s: %w", wanted.GetKind(), wanted.GetName(), err))
		case live == nil || live.GetResourceVersion() != wanted.GetResourceVersion():
			log.FromContext(ctx).Info("Wrote object", "kind", wanted.GetKind(), "name", wanted.GetName(), "new", live == nil)
		}
		return flow.Next
	}
}

// unlessOurs says that a name is taken, unless the cache only doesn't show yet what an earlier pass has created.
func (r *Reconciler) unlessOurs(ctx context.Context, o *observed, wanted *unstructured.Unstructured) flow.Outcome {
	there := &metav1.PartialObjectMetadata{}
	there.SetGroupVersionKind(wanted.GroupVersionKind())
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(wanted), there); err != nil {
		return flow.Retry(fmt.Errorf("read %s %s: %w", wanted.GetKind(), wanted.GetName(), err))
	}
	if metav1.IsControlledBy(there, o.pooler) {
		return flow.Next
	}
	return taken(wanted.GetKind(), wanted.GetName())
}

// lookAgain is when a name that was taken is looked at again: no watch tells of an object that isn't Howdah's.
const lookAgain = 15 * time.Second

func taken(kind, name string) flow.Outcome {
	return flow.Poll(lookAgain, v1alpha1.ReasonNameConflict, fmt.Sprintf("%s %s exists and belongs to somebody else, so it is not touched. Delete it, or create a Pooler of another name.", kind, name))
}

// awaitPods waits until all pods are as they are wanted, and accept clients.
func awaitPods(_ context.Context, o *observed) flow.Outcome {
	deployment, ok := o.live["Deployment"].(*appsv1.Deployment)
	wanted := o.pooler.Spec.Instances
	if !ok {
		return flow.Wait(v1alpha1.ReasonStarting, fmt.Sprintf("%d instances are starting.", wanted))
	}
	status := deployment.Status
	current := status.ObservedGeneration == deployment.Generation && *deployment.Spec.Replicas == wanted
	if current && status.ReadyReplicas >= wanted && status.UpdatedReplicas >= wanted && status.Replicas == status.UpdatedReplicas {
		return flow.Next
	}
	reason := v1alpha1.ReasonStarting
	if status.ReadyReplicas > 0 {
		reason = v1alpha1.ReasonDegraded
	}
	message := fmt.Sprintf("%d of %d instances accept clients.", status.ReadyReplicas, wanted)
	if status.ReadyReplicas >= wanted {
		reason, message = v1alpha1.ReasonUpdating, fmt.Sprintf("All %d instances accept clients. They are replaced one by one, each once its clients have gone or spec.drainTimeout has passed.", wanted)
	}
	if why := podObstacle(o.pods); why != "" {
		return flow.Wait(reason, message+" "+why)
	}
	if why := podRefused(o, deployment); why != "" {
		if reason == v1alpha1.ReasonStarting {
			reason = v1alpha1.ReasonPodRefused
		}
		return flow.Wait(reason, message+" "+why)
	}
	obstacle, why := clusterObstacle(o)
	if why == "" || status.ReadyReplicas >= wanted {
		return flow.Wait(reason, message)
	}
	if obstacle != "" && status.ReadyReplicas == 0 {
		reason = obstacle
	}
	return flow.Wait(reason, message+" "+why)
}

// podRefused says that Kubernetes refuses to create a pod, because of a quota or a policy of the namespace, and what to do; empty: it doesn't.
func podRefused(o *observed, deployment *appsv1.Deployment) string {
	for _, c := range deployment.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			users := fmt.Sprintf("On OpenShift, the pods of a Pooler run as those of its cluster: create PostgresCluster %s with spec.runAs: {fromNamespace: true} (docs/openshift.md).", o.pooler.Spec.Cluster.Name)
			return flow.Sentence("Kubernetes refuses to create a pod: "+shortened(c.Message)) + " " + workload.Remedy(c.Message, users)
		}
	}
	return ""
}

// podObstacle says what the first of the pods that don't run is waiting for; empty: they run.
func podObstacle(pods []corev1.Pod) string {
	for i := range pods {
		if why := workload.PodWaitingFor(&pods[i]); why != "" && pods[i].DeletionTimestamp.IsZero() {
			return why
		}
	}
	return ""
}
