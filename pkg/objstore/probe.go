package objstore

import "context"

// Ability is something that a repository must be able to do in its store.
type Ability string

// What Probe tries, in this order.
const (
	CanWrite            Ability = "Write"
	CanRead             Ability = "Read"
	CanWriteConditional Ability = "ConditionalWrite"
	CanList             Ability = "List"
	CanDelete           Ability = "Delete"
)

// Finding is one thing that a store can't do, with a sentence for a person.
type Finding struct {
	Ability Ability
	Message string
	Err     error
}

// Probe tries in the store what a repository needs, under keys that start with "probe/" and the
// given token (random, chosen by the caller, so that several probes don't meet). It returns what
// can't be done, in the order of trying; none means that all is well. It removes what it wrote as
// far as it may. When the bucket can't be reached or written at all it stops there.
func Probe(ctx context.Context, store Store, token string) []Finding {
	return nil
}
