// Package access gives clients and instances their way to a database: the certificate authority, certificates, passwords, the
// instances' own account, the configuration of agents and clients, and Services.
package access

import "howdah.dev/howdah/cmd/db-controller/internal/apply"

// Steps that write what gives access. Each is a step of a plan.
type Steps struct {
	*apply.Applier
	// Namespace of the suite; empty: unknown.
	Namespace string
}
