// Package apply keeps an object as it is desired: by server-side apply, and with a write only if something of it differs.
package apply

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/cmd/db-controller/internal/secretcache"
)

// Applier writes objects of clusters.
type Applier struct {
	Client client.Client
	// Secrets that were read, of which a write makes others.
	Secrets *secretcache.Cache
	// Settled objects need not be compared again.
	Settled *Settled
}
