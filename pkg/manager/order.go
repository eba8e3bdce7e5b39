package manager

import (
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SortByName sorts what a cache has listed, in another order each time. A message that names the first of several would change back and forth
// otherwise, and each change of a status makes for another pass.
func SortByName[T any, P interface {
	*T
	client.Object
}](items []T) {
	slices.SortFunc(items, func(a, b T) int { return strings.Compare(P(&a).GetName(), P(&b).GetName()) })
}
