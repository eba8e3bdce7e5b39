package manager

import (
	"os"
	"strings"
	"time"

	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/pkg/repostore/location"
	"howdah.dev/howdah/pkg/workload"
)

// Dependencies are what every reconciler is built from.
type Dependencies struct {
	// Client reads from the cache, but Secrets, and writes.
	Client client.Client
	// Live reads from the API server itself: what can't be undone is decided on it, and what was created a moment ago is seen.
	Live client.Reader
	// Events is where transitions of conditions are announced.
	Events events.EventRecorder
	// Now is the clock.
	Now func() time.Time
	// Agent of pods that are created from now on.
	Agent workload.Agent
	// Namespace of the suite; empty where it doesn't run in a pod.
	Namespace string
	// Images of PostgreSQL by major version, in those controllers that take --postgres-images.
	Images Images
	// PgBouncer is its image, in those controllers that take --pgbouncer-image.
	PgBouncer string
	// Grants of the controller's own cloud identity, in those controllers that take --cloud-identity-grants.
	Grants location.Grants
}

// NewDependencies are those of the reconcilers of the controller with this name.
func NewDependencies(mgr ctrl.Manager, name string, settings Settings) Dependencies {
	return Dependencies{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder(name), Now: time.Now,
		Agent: settings.Agent, Images: settings.Images, PgBouncer: settings.PgBouncer, Grants: settings.Grants, Namespace: ownNamespace(),
	}
}

// namespaceFile is where Kubernetes says to a pod in which namespace it runs.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

func ownNamespace() string {
	content, err := os.ReadFile(namespaceFile)
	if err != nil {
		return "" // it doesn't run in a pod
	}
	return strings.TrimSpace(string(content))
}

// Reconciler registers itself and what wakes it.
type Reconciler interface {
	SetupWithManager(mgr ctrl.Manager) error
}

// Register registers reconcilers until one can't be.
func Register(mgr ctrl.Manager, reconcilers ...Reconciler) error {
	for _, reconciler := range reconcilers {
		if err := reconciler.SetupWithManager(mgr); err != nil {
			return err
		}
	}
	return nil
}
